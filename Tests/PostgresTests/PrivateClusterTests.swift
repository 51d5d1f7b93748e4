import Glibc
import Synchronization
import Testing

@testable import Postgres

@Suite(.timeLimit(.minutes(3)))
struct PrivateClusterTests {
    @Test func `data outlives a stop and a start, and a second server on it is refused`() async throws {
        try await withDirectory { directory in
            let options = PrivateClusterOptions(directory: directory, isDisposable: true)
            let first = try await PrivateCluster.start(options)
            let connection = try await connect(first)
            try await connection.execute("CREATE TABLE kept (a int); INSERT INTO kept VALUES (7)")
            let settings = try await connection.execute(
                "SELECT current_setting('server_encoding') || ' ' || current_setting('lc_collate') || ' '"
                    + " || current_setting('listen_addresses') || current_setting('wal_compression')"
            )
            #expect(try settings.text(0, 0) == "UTF8 C.UTF-8 lz4")

            let refusal = await #expect(throws: PostgresError.self) { try await PrivateCluster.start(options) }
            #expect(refusal?.code == .cluster)
            #expect(refusal?.description.contains("runs there already") == true)
            #expect(await first.isRunning)

            try await first.stop()
            #expect(await !first.isRunning)
            try await first.stop()

            let second = try await PrivateCluster.start(options)
            let value = try await connect(second).execute("SELECT a FROM kept").text(0, 0)
            #expect(value == "7")
            try await second.stop()
        }
    }

    @Test func `a server that was killed is started again once its last process is gone`() async throws {
        try await withDirectory { directory in
            let options = PrivateClusterOptions(directory: directory, isDisposable: true)
            let first = try await PrivateCluster.start(options)
            let session = try await connect(first)
            let backend = try await session.execute("SELECT pg_backend_pid()::text").text(0, 0)
            let lockFile = try #require(FileSystem.text(of: "\(directory)/data/postmaster.pid"))
            let server = try #require(lockFile.split(separator: "\n").first.flatMap { pid_t($0) })
            let straggler = try #require(pid_t(backend))
            kill(straggler, SIGSTOP)
            defer { kill(straggler, SIGCONT) }
            kill(server, SIGKILL)
            while await first.isRunning { await Task.yield() }
            let next = Task { try await PrivateCluster.start(options) }
            // Until it was refused at least once.
            while FileSystem.text(of: "\(directory)/server.log")?.contains("pre-existing shared memory") != true {
                await Task.yield()
            }
            kill(straggler, SIGCONT)
            let second = try await next.value
            #expect(await second.isRunning)
            try await second.stop()
        }
    }

    @Test func `a server that was killed is started again over its lock file`() async throws {
        try await withDirectory { directory in
            let options = PrivateClusterOptions(directory: directory, isDisposable: true)
            let first = try await PrivateCluster.start(options)
            let lockFile = try #require(FileSystem.text(of: "\(directory)/data/postmaster.pid"))
            let processID = try #require(lockFile.split(separator: "\n").first.flatMap { pid_t($0) })
            kill(processID, SIGKILL)
            while await first.isRunning { await Task.yield() }
            #expect(FileSystem.exists("\(directory)/data/postmaster.pid"))
            let second = try await PrivateCluster.start(options)
            #expect(await second.isRunning)
            try await second.stop()
        }
    }

    @Test func `its last words are the end of a long log, and say when there is none`() async throws {
        try await withDirectory { directory in
            let cluster = try await PrivateCluster.start(
                PrivateClusterOptions(directory: directory, isDisposable: true)
            )
            try await cluster.stop()
            let path = "\(directory)/server.log"
            write(String(repeating: "before\n", count: 20_000) + "FATAL: one\nHINT: two\n", to: path)
            #expect(cluster.lastWords == "its last words: before | before | before | FATAL: one | HINT: two")
            try FileSystem.remove(path)
            write("", to: path)
            #expect(cluster.lastWords == "its log is empty")
            try FileSystem.remove(path)
            #expect(cluster.lastWords == "its log \(path) cannot be read")
        }
    }

    @Test func `a lock file of a process that is no server is removed`() async throws {
        try await withDirectory { directory in
            let options = PrivateClusterOptions(directory: directory, isDisposable: true)
            try await PrivateCluster.start(options).stop()
            // Our own process is alive and no PostgreSQL.
            let path = "\(directory)/data/postmaster.pid"
            write("\(getpid())\n\(directory)/data\n", to: path)
            let cluster = try await PrivateCluster.start(options)
            #expect(await cluster.isRunning)
            try await cluster.stop()
        }
    }

    @Test func `a long path gets a socket elsewhere`() async throws {
        try await withDirectory { directory in
            let long = directory + "/" + String(repeating: "long-", count: 20)
            let cluster = try await PrivateCluster.start(PrivateClusterOptions(directory: long, isDisposable: true))
            #expect(cluster.socketDirectory.hasPrefix("/tmp/peal-"))
            try await connect(cluster).execute("SELECT 1")
            try await cluster.stop()
            #expect(!FileSystem.exists(cluster.socketDirectory))
        }
    }

    @Test func `a setting that PostgreSQL refuses shows its words`() async throws {
        try await withDirectory { directory in
            var options = PrivateClusterOptions(directory: directory, isDisposable: true)
            options.settings = ["shared_buffers": "lots"]
            let error = await #expect(throws: PostgresError.self) { try await PrivateCluster.start(options) }
            #expect(error?.description.contains("shared_buffers") == true)
        }
    }

    @Test func `the server stops when its owner goes, without being told to`() async throws {
        try await withDirectory { directory in
            var cluster: PrivateCluster? = try await PrivateCluster.start(
                PrivateClusterOptions(directory: directory, isDisposable: true)
            )
            let lockFile = try #require(FileSystem.text(of: "\(directory)/data/postmaster.pid"))
            let processID = try #require(lockFile.split(separator: "\n").first.flatMap { pid_t($0) })
            #expect(cluster != nil)
            cluster = nil
            let deadline = ContinuousClock.now + .seconds(20)
            let child = ChildProcess(processID: processID)
            #expect(child.wait(until: deadline) != nil)
        }
    }

    @Test func `the version of the data decides which programs run`() throws {
        let root = try FileSystem.makeTemporaryDirectory(prefix: "peal-binaries-")
        for version in ["9.6", "14", "17"] {
            try FileSystem.makeDirectory("\(root)/\(version)/bin")
            for program in ["postgres", "initdb"] {
                write("", to: "\(root)/\(version)/bin/\(program)")
            }
        }
        try FileSystem.makeDirectory("\(root)/18/bin")
        #expect(try ServerBinaries.find(dataVersion: nil, root: root).directory == "\(root)/17/bin")
        #expect(try ServerBinaries.find(dataVersion: "14", root: root).directory == "\(root)/14/bin")
        let missing = #expect(throws: PostgresError.self) { try ServerBinaries.find(dataVersion: "13", root: root) }
        #expect(missing?.message.contains("apt-get install postgresql-13") == true)
        try FileSystem.removeTree(root)
    }

    @Test(.enabled(if: geteuid() == 0)) func `a directory that the user postgres cannot enter is named`() async throws {
        let closed = try FileSystem.makeTemporaryDirectory(prefix: "peal-closed-")
        let options = PrivateClusterOptions(directory: "\(closed)/data", isDisposable: true)
        let error = await #expect(throws: PostgresError.self) { try await PrivateCluster.start(options) }
        #expect(error?.description.contains("cannot enter \(closed)") == true)
        try FileSystem.removeTree(closed)
    }

    private func write(_ text: String, to path: String) {
        guard let file = unsafe fopen(path, "w") else {
            Issue.record("\(path) cannot be written")
            return
        }
        unsafe fputs(text, file)
        unsafe fclose(file)
    }

    private func connect(_ cluster: PrivateCluster) async throws -> PostgresConnection {
        try await PostgresConnection.connect(PostgresConfiguration(cluster.connectionString()))
    }

    /// A directory that whoever runs the server may enter.
    private func withDirectory(_ body: (String) async throws -> Void) async throws {
        let directory = try FileSystem.makeTemporaryDirectory(prefix: "peal-cluster-")
        try ServerUser.choose().own(directory)
        do {
            try await body(directory)
        } catch {
            try FileSystem.removeTree(directory)
            throw error
        }
        try FileSystem.removeTree(directory)
    }
}
