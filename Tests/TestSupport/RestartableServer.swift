import PealRuntime
import Postgres

/// A private server of one test, which may stop and start it.
actor RestartableServer {
    private var cluster: PrivateCluster

    private init(_ cluster: PrivateCluster) {
        self.cluster = cluster
    }

    static func start() async throws -> RestartableServer {
        RestartableServer(try await PrivateCluster.startDisposable(settings: ["shared_buffers": "32MB"]))
    }

    /// Makes the schema and the apps, once.
    func makeFixture() async throws -> SendFixture {
        let fixture = try await connect()
        try await Database.migrator().migrate(fixture.connection)
        try await fixture.addApps()
        return fixture
    }

    /// Stops the server in order and starts it again; returns a fixture with a new connection.
    func restart() async throws -> SendFixture {
        let options = cluster.options
        try await cluster.stop()
        cluster = try await PrivateCluster.start(options)
        return try await connect()
    }

    func destroy() throws {
        try cluster.destroy()
    }

    private func connect() async throws -> SendFixture {
        let database = TestDatabase(
            name: "postgres",
            connectionString: cluster.connectionString(),
            socketDirectory: cluster.socketDirectory
        )
        return SendFixture(database: database, connection: try await database.connect())
    }
}
