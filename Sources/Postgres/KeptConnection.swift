/// The one connection of a loop: opened when it is first needed, and anew after it broke.
package struct KeptConnection: Sendable {
    private let configuration: PostgresConfiguration
    private var connection: PostgresConnection?

    package init(_ configuration: PostgresConfiguration) {
        self.configuration = configuration
    }

    /// The connection, opened if there is none that can be used.
    package mutating func get() async throws(PostgresError) -> PostgresConnection {
        if let connection, connection.condition == .idle { return connection }
        await close()
        let opened = try await PostgresConnection.connect(configuration)
        connection = opened
        return opened
    }

    /// Looks at an error that a statement on it threw: a connection that must not be used again is closed.
    package mutating func note(_ error: PostgresError) async {
        if error.closesConnection { await close() }
    }

    /// Closes the connection if it is open.
    package mutating func close() async {
        await connection?.close()
        connection = nil
    }
}
