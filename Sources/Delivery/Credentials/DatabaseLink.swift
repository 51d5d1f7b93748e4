import Postgres

/// A connection that is made when it is needed and made anew after it broke. Give it to one task at a time.
actor DatabaseLink {
    private let configuration: PostgresConfiguration
    private var present: PostgresConnection?

    init(_ configuration: PostgresConfiguration) {
        self.configuration = configuration
    }

    /// The connection, open.
    func connection() async throws(PostgresError) -> PostgresConnection {
        if let present, present.condition == .idle { return present }
        if let present { await present.close() }
        present = nil
        let made = try await PostgresConnection.connect(configuration)
        present = made
        return made
    }

    /// Closes the connection; the next use makes another one.
    func close() async {
        await present?.close()
        present = nil
    }
}
