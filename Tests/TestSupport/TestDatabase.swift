package import Postgres
package import Telemetry

/// A database that one test has for itself.
package struct TestDatabase: Sendable {
    package let name: String
    /// For a libpq of one's own, or for `PEAL_DATABASE_URL` of another process.
    package let connectionString: String
    /// The directory of the private server's socket; nil on a server that was given.
    package let socketDirectory: String?

    /// How to connect to it, with log lines from warnings up.
    package func configuration(logger: Logger = Logger(level: .warning)) -> PostgresConfiguration {
        PostgresConfiguration(connectionString, applicationName: "peal-test", logger: logger)
    }

    package func connect() async throws -> PostgresConnection {
        try await PostgresConnection.connect(configuration())
    }
}

/// Gives a test a database of its own with the whole schema, and removes it when the test ends. About 0.1 s.
package func withDatabase<Value>(_ body: (TestDatabase) async throws -> Value) async throws -> Value {
    try await withDatabase(isMigrated: true, body)
}

/// The same without the schema.
package func withEmptyDatabase<Value>(_ body: (TestDatabase) async throws -> Value) async throws -> Value {
    try await withDatabase(isMigrated: false, body)
}

private func withDatabase<Value>(
    isMigrated: Bool,
    _ body: (TestDatabase) async throws -> Value
) async throws -> Value {
    let database = try await TestServer.shared.makeDatabase(isMigrated: isMigrated)
    let value: Value
    do {
        value = try await body(database)
    } catch {
        try await TestServer.shared.drop(database)
        throw error
    }
    try await TestServer.shared.drop(database)
    return value
}
