import Glibc
import Postgres
import PushCore
import SQLText
import Synchronization
import Telemetry

/// The PostgreSQL server of this test process: a private one, started when the first test needs it and removed when the
/// process ends; or the one that `PEAL_TEST_DATABASE_URL` names.
actor TestServer {
    static let shared = TestServer()

    private struct Running {
        let admin: PostgresConnection
        let baseURL: String
        let template: String
        let socketDirectory: String?
    }

    private var start: Task<Running, any Error>?
    private var databaseCount = 0

    /// Makes a database: a copy of one with all migrations, or an empty one.
    func makeDatabase(isMigrated: Bool) async throws -> TestDatabase {
        let server = try await running()
        databaseCount += 1
        let name = "peal_test_\(getpid())_\(databaseCount)"
        let template = isMigrated ? server.template : "template0"
        try await server.admin.execute("CREATE DATABASE \(name) TEMPLATE \(template)", deadline: .seconds(60))
        return TestDatabase(
            name: name,
            connectionString: Self.url(server.baseURL, database: name),
            socketDirectory: server.socketDirectory
        )
    }

    /// Removes a database, and with it whatever is still connected.
    func drop(_ database: TestDatabase) async throws {
        try await running().admin.execute("DROP DATABASE \(database.name) WITH (FORCE)", deadline: .seconds(60))
    }

    private func running() async throws -> Running {
        let task = start ?? Task { try await Self.startServer() }
        start = task
        return try await task.value
    }

    private static func startServer() async throws -> Running {
        let baseURL: String
        var socketDirectory: String?
        if let url = unsafe getenv("PEAL_TEST_DATABASE_URL") {
            baseURL = unsafe String(cString: url)
        } else {
            let cluster = try await PrivateCluster.startDisposable(settings: ["shared_buffers": "64MB"])
            ExitHandler.destroyAtExit(cluster)
            baseURL = cluster.connectionString()
            socketDirectory = cluster.socketDirectory
        }
        let admin = try await PostgresConnection.connect(PostgresConfiguration(baseURL))
        let template = try await makeTemplate(admin, baseURL: baseURL)
        return Running(admin: admin, baseURL: baseURL, template: template, socketDirectory: socketDirectory)
    }

    /// Makes the database that tests copy, unless an earlier run with the same migrations left it on the server.
    private static func makeTemplate(_ admin: PostgresConnection, baseURL: String) async throws -> String {
        let name = "peal_template_\(migrationsHash)"
        let find = SQLStatement(name: "find_template", text: "SELECT 1 FROM pg_database WHERE datname = $1")
        if try await !admin.query(find, [.text(name)]).isEmpty { return name }
        let draft = "\(name)_\(getpid())"
        try await admin.execute("CREATE DATABASE \(draft) TEMPLATE template0", deadline: .seconds(60))
        let connection = try await PostgresConnection.connect(PostgresConfiguration(url(baseURL, database: draft)))
        let migrator = Migrator(
            migrations: SQLText.migrations,
            statements: SQLText.migratorStatements,
            logger: Logger(level: .warning)
        )
        try await migrator.migrate(connection)
        await connection.close()
        do throws(PostgresError) {
            try await admin.execute("ALTER DATABASE \(draft) RENAME TO \(name)")
        } catch {
            // Another test process was faster.
            guard error.sqlState == "42P04" else { throw error }
            try await admin.execute("DROP DATABASE \(draft)")
        }
        return name
    }

    /// The same server, another database: libpq lets the last setting win.
    private static func url(_ base: String, database: String) -> String {
        guard base.hasPrefix("postgres") && base.contains("://") else { return "\(base) dbname=\(database)" }
        return base + (base.contains("?") ? "&" : "?") + "dbname=\(database)"
    }

    /// FNV-1a over all migrations.
    private static var migrationsHash: String {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for migration in SQLText.migrations {
            for byte in migration.text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        }
        return String(hash, radix: 16)
    }
}

/// Removes the private server when the process ends. If the process crashes, the server stops by itself, and the next
/// test run removes what it left.
private enum ExitHandler {
    private static let cluster = Mutex<PrivateCluster?>(nil)

    static func destroyAtExit(_ cluster: PrivateCluster) {
        Self.cluster.withLock { $0 = cluster }
        atexit { ExitHandler.destroy() }
    }

    private static func destroy() {
        let cluster = cluster.withLock { $0 }
        do {
            try cluster?.destroy()
        } catch {
            Logger().warning("the test server was not removed", [.errorMessage: .describing(error)])
        }
    }
}
