import Glibc
import PealRuntime
import Postgres

/// A private server of one test, which may stop and start it. Either ends every connection, the test's own too.
package actor RestartableServer {
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

    /// Stops the server in order and starts it again; returns the pipeline with a new connection.
    package func restart(_ pipeline: Pipeline) async throws -> Pipeline {
        try await cluster.stop()
        return try await startAgain(pipeline)
    }

    /// Ends the server in the middle of everything, as a crash does, and starts it again.
    package func crash(_ pipeline: Pipeline) async throws -> Pipeline {
        let processID = try await pipeline.fixture.number(
            "SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)::bigint"
        )
        kill(pid_t(processID), SIGQUIT)
        try await wait(for: "the server to end") { await !cluster.isRunning }
        return try await startAgain(pipeline)
    }

    private func startAgain(_ pipeline: Pipeline) async throws -> Pipeline {
        cluster = try await PrivateCluster.start(cluster.options)
        return pipeline.on(try await connect())
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
