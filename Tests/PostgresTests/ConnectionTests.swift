import Glibc
import Postgres
import PushCore
import Synchronization
import TestSupport
import Testing

@Suite struct ConnectionTests {
    @Test func `a statement over its deadline is cancelled and the connection lives on`() async throws {
        try await withConnection { connection, _ in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.query(sql("SELECT pg_sleep(60)"), deadline: .milliseconds(50))
            }
            #expect(error?.code == .deadline)
            #expect(error?.isRetryable == true)
            let one = try await connection.query(sql("SELECT 1")).int32(0, 0)
            #expect(one == 1)
            #expect(connection.condition == .idle)
        }
    }

    @Test func `cancelling the task cancels the statement in the server`() async throws {
        try await withConnection { connection, database in
            let task = Task { try await connection.query(sql("SELECT pg_sleep(60)")) }
            let observer = try await database.connect()
            try await waitUntil(
                observer,
                "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()"
            )
            task.cancel()
            let error = await #expect(throws: PostgresError.self) { try await task.value }
            #expect(error?.code == .cancelled)
            let one = try await connection.query(sql("SELECT 1")).int32(0, 0)
            #expect(one == 1)
        }
    }

    @Test func `a cancelled task sends nothing`() async throws {
        try await withConnection { connection, _ in
            let task = Task {
                while !Task.isCancelled { await Task.yield() }
                return try await connection.query(sql("SELECT 1"))
            }
            task.cancel()
            let error = await #expect(throws: PostgresError.self) { try await task.value }
            #expect(error?.code == .cancelled)
        }
    }

    @Test func `a server that stops in the middle of a statement is cut off`() async throws {
        try await withEmptyDatabase { database in
            var configuration = database.configuration()
            configuration.cancelGrace = .milliseconds(100)
            let connection = try await PostgresConnection.connect(configuration)
            let process = try await connection.query(sql("SELECT pg_backend_pid()")).int32(0, 0)
            kill(process, SIGSTOP)
            let error = await #expect(throws: PostgresError.self) {
                try await connection.query(sql("SELECT 1"), deadline: .milliseconds(50))
            }
            kill(process, SIGCONT)
            #expect(error?.code == .deadline)
            #expect(error?.message.contains("the connection was closed") == true)
            #expect(connection.condition == .closed)
        }
    }

    @Test func `a server that stays silent while connecting is left`() async throws {
        let server = try SilentServer()
        var configuration = PostgresConfiguration("host=127.0.0.1 port=\(server.port) dbname=x user=x")
        configuration.connectTimeout = .milliseconds(100)
        let error = await #expect(throws: PostgresError.self) { try await PostgresConnection.connect(configuration) }
        #expect(error?.code == .connection)
        #expect(error?.message.contains("did not answer in time") == true)
    }

    @Test func `the next host is tried when one is silent or refuses`() async throws {
        try await withEmptyDatabase { database in
            let directory = try #require(database.socketDirectory)
            let server = try SilentServer()
            var configuration = PostgresConfiguration(
                "host=127.0.0.1,/nonexistent,\(directory) port=\(server.port),5432,5432 user=postgres dbname=\(database.name)"
            )
            configuration.connectTimeout = .seconds(2)
            let connection = try await PostgresConnection.connect(configuration)
            let one = try await connection.query(sql("SELECT 1")).int32(0, 0)
            #expect(one == 1)
        }
    }

    @Test func `connecting stops when the task is cancelled`() async throws {
        let server = try SilentServer()
        let configuration = PostgresConfiguration("host=127.0.0.1 port=\(server.port) dbname=x user=x")
        let task = Task { try await PostgresConnection.connect(configuration) }
        await Task.yield()
        task.cancel()
        let error = await #expect(throws: PostgresError.self) { try await task.value }
        #expect(error?.code == .cancelled)
    }

    @Test func `a terminated connection says so and stays closed`() async throws {
        try await withConnection { connection, _ in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.query(sql("SELECT pg_terminate_backend(pg_backend_pid())"))
            }
            #expect(error?.sqlState == .adminShutdown)
            #expect(error?.closesConnection == true)
            #expect(connection.condition == .closed)
            let after = await #expect(throws: PostgresError.self) { try await connection.query(sql("SELECT 1")) }
            #expect(after?.code == .connection)
        }
    }

    @Test func `a server error names the statement, and shows neither values nor detail`() async throws {
        try await withConnection { connection, _ in
            try await connection.execute("CREATE TEMP TABLE t (a text CONSTRAINT only_once UNIQUE)")
            let insert = SQLStatement(name: "insert_token", text: "INSERT INTO t VALUES ($1)")
            try await connection.query(insert, [.text("secret-token")])
            let error = await #expect(throws: PostgresError.self) {
                try await connection.query(insert, [.text("secret-token")])
            }
            #expect(error?.sqlState == .uniqueViolation)
            #expect(error?.constraint == "only_once")
            #expect(error?.detail?.contains("secret-token") == true)
            #expect(error?.description.contains("insert_token") == true)
            #expect(error?.description.contains("secret-token") == false)
            let malformed = await #expect(throws: PostgresError.self) {
                try await connection.query(sql("SELECT $1::text::uuid"), [.text("secret-token")])
            }
            #expect(malformed?.description.contains("secret-token") == false)
        }
    }

    @Test func `a script runs several statements, and its first error undoes all`() async throws {
        try await withConnection { connection, _ in
            try await connection.execute("CREATE TABLE s (a int); INSERT INTO s VALUES (1), (2);")
            await #expect(throws: PostgresError.self) {
                try await connection.execute("INSERT INTO s VALUES (3); SELECT 1/0; INSERT INTO s VALUES (4)")
            }
            #expect(try await connection.query(sql("SELECT count(*) FROM s")).int64(0, 0) == 2)
        }
    }

    @Test func `affected rows are counted`() async throws {
        try await withConnection { connection, _ in
            try await connection.execute("CREATE TEMP TABLE t (a int)")
            let inserted = try await connection.query(sql("INSERT INTO t SELECT generate_series(1, 7)"))
            #expect(inserted.affectedCount == 7)
            #expect(inserted.isEmpty)
            #expect(try await connection.query(sql("DELETE FROM t WHERE a > 100")).affectedCount == 0)
        }
    }

    @Test func `a read-only server is not accepted unless allowed`() async throws {
        try await withEmptyDatabase { database in
            let admin = try await database.connect()
            try await admin.execute("ALTER DATABASE \(database.name) SET default_transaction_read_only = on")
            await #expect(throws: PostgresError.self) { try await database.connect() }
            var configuration = database.configuration()
            configuration.requiresWritableServer = false
            let connection = try await PostgresConnection.connect(configuration)
            let error = await #expect(throws: PostgresError.self) {
                try await connection.query(sql("CREATE TABLE t (a int)"))
            }
            #expect(error?.sqlState == .readOnlyTransaction)
            #expect(connection.condition == .closed)
        }
    }

    @Test func `a large result and large parameters pass`() async throws {
        try await withConnection { connection, _ in
            let megabytes = String(repeating: "x", count: 20_000_000)
            let rows = try await connection.query(sql("SELECT $1, length($1)"), [.text(megabytes)])
            #expect(try rows.int32(0, 1) == 20_000_000)
            #expect(try rows.withBytes(0, 0) { $0.count } == 20_000_000)
        }
    }

    @Test func `threads end with their connections`() async throws {
        try await withEmptyDatabase { database in
            for _ in 0..<50 {
                let connection = try await database.connect()
                try await connection.query(sql("SELECT 1"))
            }
            // Threads end a moment after the last reference; they are counted until they have.
            var count = connectionThreadCount()
            for _ in 0..<1_000_000 where count > 20 {
                await Task.yield()
                count = connectionThreadCount()
            }
            #expect(count <= 20)
        }
    }

    private func withConnection(_ body: (PostgresConnection, TestDatabase) async throws -> Void) async throws {
        try await withEmptyDatabase { database in try await body(database.connect(), database) }
    }
}

/// Asks the server until the answer is true; gives up after ten seconds.
func waitUntil(_ connection: PostgresConnection, _ condition: String) async throws {
    let deadline = ContinuousClock.now + .seconds(10)
    while try await !connection.query(sql(condition)).bool(0, 0) {
        try #require(ContinuousClock.now < deadline, "it never became true: \(condition)")
    }
}

/// How many threads of connections this process has now. Other tests have some, too.
private func connectionThreadCount() -> Int {
    guard let directory = unsafe opendir("/proc/self/task") else { return 0 }
    defer { unsafe closedir(directory) }
    var count = 0
    while let entry = unsafe readdir(directory) {
        let thread = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
            unsafe String(cString: UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self))
        }
        guard let file = unsafe fopen("/proc/self/task/\(thread)/comm", "r") else { continue }
        defer { unsafe fclose(file) }
        var name = [CChar](repeating: 0, count: 32)
        guard unsafe fgets(&name, 32, file) != nil else { continue }
        if String(decoding: name.map { UInt8(bitPattern: $0) }, as: UTF8.self).hasPrefix("peal-postgres") { count += 1 }
    }
    return count
}

/// Accepts TCP connections on 127.0.0.1 (the kernel does) and never says a word.
private final class SilentServer {
    private let socketDescriptor: Int32
    let port: UInt16

    init() throws {
        socketDescriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        try #require(socketDescriptor >= 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = socketDescriptor
        let result = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            let generic = unsafe UnsafeMutableRawPointer(pointer).assumingMemoryBound(to: sockaddr.self)
            guard unsafe bind(descriptor, generic, length) == 0, listen(descriptor, 16) == 0 else { return Int32(-1) }
            return unsafe getsockname(descriptor, generic, &length)
        }
        port = UInt16(bigEndian: address.sin_port)
        try #require(result == 0)
    }

    deinit {
        close(socketDescriptor)
    }
}
