import Glibc
import PushCore
import Synchronization
package import Telemetry

/// How a private server is set up.
package struct PrivateClusterOptions: Sendable {
    /// Where it keeps its files: `data`, `server.log` and, if the path is short enough, its socket.
    package var directory: String
    /// Settings of PostgreSQL by name; they win over the defaults here.
    package var settings: [String: String] = [:]
    /// Whether the data may be lost when the machine stops: for tests and benchmarks of other things.
    package var isDisposable: Bool
    package var startDeadline: Duration = .seconds(60)
    /// How long an orderly stop may take before the server is stopped at once.
    package var stopDeadline: Duration = .seconds(20)
    package var logger: Logger

    package init(directory: String, isDisposable: Bool = false, logger: Logger = Logger(level: .warning)) {
        self.directory = directory
        self.isDisposable = isDisposable
        self.logger = logger
    }

    /// Whether a cluster was made there already.
    package var hasCluster: Bool { FileSystem.exists("\(dataDirectory)/PG_VERSION") }

    var dataDirectory: String { "\(directory)/data" }

    /// All settings, by name.
    var allSettings: [String: String] {
        var all = [
            "listen_addresses": "", "unix_socket_permissions": "0700", "timezone": "UTC", "log_timezone": "UTC",
            "logging_collector": "off", "max_connections": "200", "shared_buffers": "128MB", "jit": "off",
            "wal_compression": "lz4", "max_wal_size": "4GB", "checkpoint_timeout": "15min",
            "autovacuum_naptime": "10s",
            // Details quote data: neither tokens nor payloads belong into a log.
            "log_error_verbosity": "terse", "log_min_error_statement": "panic",
        ]
        if isDisposable {
            all["fsync"] = "off"
            all["full_page_writes"] = "off"
            all["max_wal_size"] = "1GB"
        }
        return all.merging(settings) { _, given in given }
    }
}

/// A PostgreSQL server of our own: made when it is not there, reached by a Unix socket only, stopped with us.
///
/// It is a child of this actor's thread and is told to stop when that thread ends, however it ends: keep the actor for
/// as long as the server is needed. When we are root the server runs as the user `postgres`, to whom the directory is
/// given. The socket is closed to other users.
package actor PrivateCluster {
    package nonisolated let options: PrivateClusterOptions
    /// The directory that holds the socket.
    package nonisolated let socketDirectory: String
    private let hasOwnSocketDirectory: Bool
    private let executor: DedicatedThreadExecutor
    private let user: ServerUser
    private let server = Mutex<ChildProcess?>(nil)

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    private nonisolated var dataDirectory: String { options.dataDirectory }
    private nonisolated var logPath: String { "\(options.directory)/server.log" }

    private init(_ options: PrivateClusterOptions) throws(PostgresError) {
        self.options = options
        user = try ServerUser.choose()
        // The name of a Unix socket holds 107 bytes, and PostgreSQL adds `/.s.PGSQL.5432`.
        hasOwnSocketDirectory = options.directory.utf8.count + "/socket/.s.PGSQL.5432".utf8.count > 107
        socketDirectory =
            hasOwnSocketDirectory
            ? try FileSystem.makeTemporaryDirectory(prefix: "peal-") : "\(options.directory)/socket"
        executor = DedicatedThreadExecutor(name: "peal-cluster")
    }

    deinit {
        executor.stop()
    }

    /// Makes the server if it is not there, starts it, and returns when it accepts connections.
    ///
    /// Throws `.cluster` when PostgreSQL is not installed, when a server runs there already, or when it does not start;
    /// the text holds the server's last words.
    package static func start(_ options: PrivateClusterOptions) async throws(PostgresError) -> PrivateCluster {
        let cluster = try PrivateCluster(options)
        try await cluster.open()
        return cluster
    }

    /// The URI of a database of this server, for its superuser `postgres`.
    package nonisolated func connectionString(database: String = "postgres") -> String {
        "postgresql://postgres@/\(database.percentEncoded)?host=\(socketDirectory.percentEncoded)"
    }

    /// Whether the server runs.
    package var isRunning: Bool {
        server.withLock { server in
            guard let child = server else { return false }
            guard child.wait(until: .now) != nil else { return true }
            server = nil
            return false
        }
    }

    /// What the server's log, `server.log`, ends with, as part of a sentence: its last five lines, or why there are none.
    package nonisolated var lastWords: String {
        guard let log = FileSystem.end(of: logPath) else { return "its log \(logPath) cannot be read" }
        let lines = log.split(separator: "\n").suffix(5)
        return lines.isEmpty ? "its log is empty" : "its last words: \(lines.joined(separator: " | "))"
    }

    /// Stops the server: in order, and at once when that takes too long. Does nothing when it does not run.
    package func stop() throws(PostgresError) {
        guard let child = server.withLock({ $0 }) else { return }
        child.signal(SIGINT)
        if child.wait(until: .now + options.stopDeadline) == nil {
            options.logger.warning("PostgreSQL did not stop in time and is stopped at once", [.path: .text(logPath)])
            child.signal(SIGQUIT)
            guard child.wait(until: .now + .seconds(10)) != nil else {
                throw failure("stop the server", "process \(child.processID) does not end")
            }
        }
        server.withLock { $0 = nil }
        if hasOwnSocketDirectory { try FileSystem.removeTree(socketDirectory) }
    }

    /// Stops the server at once and removes all its files, without a task: for exit handlers of tests.
    package nonisolated func destroy() throws(PostgresError) {
        if let child = server.withLock({ $0 }) {
            child.signal(SIGQUIT)
            _ = child.wait(until: .now + .seconds(5))
            server.withLock { $0 = nil }
        }
        if hasOwnSocketDirectory { try FileSystem.removeTree(socketDirectory) }
        try FileSystem.removeTree(options.directory)
    }

    private func open() async throws(PostgresError) {
        // What is there above it is looked at first, so that a place that is refused stays as it was.
        try user.checkCanEnter(options.directory)
        for directory in [options.directory, socketDirectory] {
            try FileSystem.makeDirectory(directory)
            try user.own(directory)
            try user.checkCanEnter(directory)
        }
        let dataVersion = FileSystem.text(of: "\(dataDirectory)/PG_VERSION")?.onOneLine
        let binaries = try ServerBinaries.find(dataVersion: dataVersion)
        if dataVersion == nil { try makeCluster(binaries) }
        try checkNoServerRuns()
        let deadline = ContinuousClock.now + options.stopDeadline
        while true {
            do throws(PostgresError) {
                return try await launch(binaries)
            } catch {
                // The processes of a server that was killed outlive it for a moment, and keep the next one out.
                guard lastWords.contains("pre-existing shared memory block"), ContinuousClock.now < deadline else {
                    throw error
                }
            }
            // Between two tries, on this thread of our own.
            usleep(50000)
        }
    }

    private func launch(_ binaries: ServerBinaries) async throws(PostgresError) {
        try FileSystem.remove(logPath)
        let settings = options.allSettings.sorted { $0.key < $1.key }.flatMap { ["-c", "\($0.key)=\($0.value)"] }
        let command = ["\(binaries.directory)/postgres", "-D", dataDirectory, "-k", socketDirectory] + settings
        let deathSignal = options.isDisposable ? "QUIT" : "INT"
        let child = try ChildProcess.start(user.prefix(deathSignal: deathSignal) + command, outputPath: logPath)
        server.withLock { $0 = child }
        do throws(PostgresError) {
            try await waitUntilReady(child)
        } catch {
            child.signal(SIGQUIT)
            _ = child.wait(until: .now + .seconds(10))
            server.withLock { $0 = nil }
            throw error
        }
    }

    /// Runs initdb beside the final place, so that a half-made cluster never passes for one.
    private func makeCluster(_ binaries: ServerBinaries) throws(PostgresError) {
        let newDirectory = "\(dataDirectory).new"
        if FileSystem.exists(newDirectory) { try FileSystem.removeTree(newDirectory) }
        try FileSystem.remove(logPath)
        var command = ["\(binaries.directory)/initdb", "-D", newDirectory, "--username=postgres", "--auth=trust"]
        command += ["--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions"]
        if options.isDisposable { command.append("--no-sync") }
        let status = try ChildProcess.run(
            user.prefix(deathSignal: "KILL") + command,
            outputPath: logPath,
            within: options.startDeadline
        )
        guard status == 0 else { throw failure("make a cluster", "initdb ended with status \(status)") }
        try FileSystem.rename(newDirectory, to: dataDirectory)
    }

    /// Waits for a server whose starter was killed, and which is therefore stopping; any other one is an error.
    private func checkNoServerRuns() throws(PostgresError) {
        let start = ContinuousClock.now
        // Long enough for the server to hear of the death of its starter.
        var deadline = start + .seconds(2)
        while let present = try runningServer() {
            if present.isStopping { deadline = start + options.stopDeadline }
            guard ContinuousClock.now < deadline else {
                throw PostgresError(
                    .cluster,
                    activity: "start PostgreSQL in \(options.directory)",
                    message: "a server (process \(present.process)) runs there already: "
                        + "stop what started it, or use that server through PEAL_DATABASE_URL"
                )
            }
            // Between two looks, on this thread of our own.
            usleep(20000)
        }
    }

    /// The server that the lock file names. A file whose process is no PostgreSQL is left over from a crash, and goes:
    /// PostgreSQL would heed its number alone.
    private func runningServer() throws(PostgresError) -> (process: pid_t, isStopping: Bool)? {
        let lockFile = "\(dataDirectory)/postmaster.pid"
        guard let lines = FileSystem.text(of: lockFile)?.split(separator: "\n", omittingEmptySubsequences: false),
            let owner = lines.first.flatMap({ pid_t($0) })
        else { return nil }
        guard FileSystem.text(of: "/proc/\(owner)/comm")?.onOneLine == "postgres" else {
            try FileSystem.remove(lockFile)
            return nil
        }
        return (process: owner, isStopping: lines.count > 7 && lines[7].hasPrefix("stopping"))
    }

    private func waitUntilReady(_ child: ChildProcess) async throws(PostgresError) {
        let deadline = ContinuousClock.now + options.startDeadline
        var configuration = PostgresConfiguration(connectionString(), applicationName: "peal up")
        configuration.connectTimeout = .seconds(2)
        while true {
            if let status = child.wait(until: .now) {
                throw failure("start PostgreSQL", "it ended with status \(status)")
            }
            do throws(PostgresError) {
                return try await PostgresConnection.connect(configuration).close()
            } catch {
                guard error.code == .connection, ContinuousClock.now < deadline else { throw error }
            }
            // Between two looks, on this thread of our own.
            usleep(20000)
        }
    }

    /// An error with the last words of the server's log.
    private func failure(_ activity: String, _ message: String) -> PostgresError {
        PostgresError(
            .cluster,
            activity: "\(activity) in \(options.directory)",
            message: "\(message); \(lastWords)"
        )
    }
}

extension String {
    /// For a part of a URI: all but letters, digits and `-._~` escaped.
    fileprivate var percentEncoded: String {
        var text: [UInt8] = []
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                text.append(byte)
            default:
                text.append(UInt8(ascii: "%"))
                Hex.append(CollectionOfOne(byte), to: &text)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
