import Glibc
package import Postgres

/// Puts Debian's PgBouncer in transaction mode before a database, with two server connections, and takes it away again.
///
/// `body` gets a configuration that goes through it. Works with the private test server only.
package func withPgBouncer<Value>(
    _ database: TestDatabase,
    _ body: (PostgresConfiguration) async throws -> Value
) async throws -> Value {
    let bouncer = try PgBouncer(database)
    let value: Value
    do {
        try await bouncer.start()
        value = try await body(bouncer.configuration)
    } catch {
        await bouncer.stop()
        throw error
    }
    await bouncer.stop()
    return value
}

/// A PgBouncer of one test: a child of this actor's thread, killed with it.
private actor PgBouncer {
    nonisolated let configuration: PostgresConfiguration
    private let executor: DedicatedThreadExecutor
    private let directory: String
    private var child: ChildProcess?

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    init(_ database: TestDatabase) throws {
        guard let host = database.socketDirectory else { throw failure("it needs the private test server") }
        var template = Array("/tmp/peal-bouncer-XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw failure("no directory could be made") }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        configuration = PostgresConfiguration(
            "host=\(directory) port=6432 user=postgres dbname=\(database.name)",
            applicationName: "peal-test"
        )
        let settings = """
            [databases]
            \(database.name) = host=\(host) user=postgres
            [pgbouncer]
            listen_addr =
            listen_port = 6432
            unix_socket_dir = \(directory)
            auth_type = any
            pool_mode = transaction
            default_pool_size = 2
            max_client_conn = 100
            """
        guard let file = unsafe fopen("\(directory)/pgbouncer.ini", "w") else { throw failure("no file could be made") }
        unsafe fputs(settings, file)
        unsafe fclose(file)
        executor = DedicatedThreadExecutor(name: "peal-bouncer")
    }

    deinit {
        executor.stop()
    }

    func start() async throws {
        let user = try ServerUser.choose()
        try user.own(directory)
        try user.own("\(directory)/pgbouncer.ini")
        let child = try ChildProcess.start(
            user.prefix(deathSignal: "KILL") + ["/usr/sbin/pgbouncer", "\(directory)/pgbouncer.ini"],
            outputPath: "\(directory)/log"
        )
        self.child = child
        let deadline = ContinuousClock.now + .seconds(20)
        while true {
            do throws(PostgresError) {
                return try await PostgresConnection.connect(configuration).close()
            } catch {
                guard ContinuousClock.now < deadline, child.wait(until: .now) == nil else { throw error }
            }
        }
    }

    func stop() {
        child?.signal(SIGKILL)
        _ = child?.wait(until: .now + .seconds(5))
        _ = try? ChildProcess.run(["rm", "-rf", "--", directory], outputPath: "/dev/null", within: .seconds(10))
    }
}

private func failure(_ message: String) -> PostgresError {
    PostgresError(.cluster, activity: "start PgBouncer", message: message)
}
