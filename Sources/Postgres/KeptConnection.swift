import Telemetry

/// The one connection of a loop or a service: opened when it is first needed, and anew after it broke.
///
/// A loop works through its statements one after the other, so a connection of its own is all that it can use, and nobody
/// else keeps it waiting. What several tasks share is a `PostgresPool`. What waits between two failures is the loop.
package actor KeptConnection {
    private let configuration: PostgresConfiguration
    private var connection: PostgresConnection?

    package init(_ configuration: PostgresConfiguration) {
        self.configuration = configuration
    }

    /// The connection, opened if there is none that can be used. Give it to one task at a time for a transaction.
    package func get() async throws(PostgresError) -> PostgresConnection {
        if let connection, connection.condition == .idle { return connection }
        await close()
        let opened = try await PostgresConnection.connect(configuration)
        if let connection, connection.condition == .idle {
            // Somebody else was quicker.
            await opened.close()
            return connection
        }
        connection = opened
        let processID = await opened.announcedProcessID ?? 0
        configuration.logger.debug("a database connection was opened", [.processID: .number(processID)])
        return opened
    }

    /// Looks at an error that a statement on it threw: a connection that must not be used again is closed.
    package func note(_ error: PostgresError) async {
        if error.closesConnection { await close() }
    }

    /// Looks at an error that a statement on it threw, and throws it unless it is of that statement alone.
    package func pass(_ error: PostgresError) async throws(PostgresError) {
        await note(error)
        guard error.isOfStatement else { throw error }
    }

    /// Closes the connection if it is open.
    package func close() async {
        let closing = connection
        connection = nil
        guard let closing else { return }
        await closing.close()
        configuration.logger.debug("a database connection was closed")
    }
}
