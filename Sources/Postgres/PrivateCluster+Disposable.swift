import Glibc
package import Telemetry

extension PrivateCluster {
    private static let prefix = "peal-disposable-"

    /// Starts a server for tests or benchmarks in a new directory in /tmp, which `destroy` removes.
    ///
    /// What processes that are gone left in /tmp is removed first. About 1.5 s.
    package static func startDisposable(
        settings: [String: String] = [:],
        logger: Logger = Logger(level: .warning)
    ) async throws(PostgresError) -> PrivateCluster {
        try removeAbandoned()
        let directory = try FileSystem.makeTemporaryDirectory(prefix: "\(prefix)\(getpid())-")
        var options = PrivateClusterOptions(directory: directory, isDisposable: true, logger: logger)
        options.settings = settings
        return try await start(options)
    }

    /// A name holds the process that made the directory. Its server has stopped with it.
    private static func removeAbandoned() throws(PostgresError) {
        for name in FileSystem.names(in: "/tmp") where name.hasPrefix(prefix) {
            guard let owner = pid_t(name.dropFirst(prefix.count).prefix { $0 != "-" }) else { continue }
            if kill(owner, 0) != 0 && errno == ESRCH { try FileSystem.removeTree("/tmp/\(name)") }
        }
    }
}
