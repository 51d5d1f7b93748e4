import Glibc
package import OpenSSL
import Postgres
import PushCore
import SQLText
package import Telemetry

/// The database of `peal up`: a private PostgreSQL server, a database with the whole schema, and a master key, all in
/// one directory that is made when it is absent.
package struct EmbeddedDatabase: Sendable {
    /// The libpq URI of the database, over a Unix socket.
    package let url: String
    /// Opens the credentials of this directory.
    package let masterKey: SealingKey
    /// A shell file that sets what other commands need: `. DIR/env`.
    package let environmentFile: String
    private let cluster: PrivateCluster

    /// Makes what is absent and starts the server. Throws when one runs there already, or the directory is unusable.
    package static func start(
        directory: String,
        settings: Settings,
        logger: Logger
    ) async throws -> EmbeddedDatabase {
        let isNew = try makeDirectory(directory)
        let directory = try absolutePath(directory)
        do {
            return try await start(in: directory, settings: settings, logger: logger)
        } catch {
            // Where a start was refused before it kept anything, the directory goes too; one that holds something stays.
            if isNew { unsafe rmdir(directory) }
            throw error
        }
    }

    private static func start(
        in directory: String,
        settings: Settings,
        logger: Logger
    ) async throws -> EmbeddedDatabase {
        let options = PrivateClusterOptions(directory: "\(directory)/postgres", logger: logger)
        let ownKeyFile = "\(directory)/master.key"
        let (masterKey, masterKeyFile, isNew) = try masterKey(settings, directory: directory, cluster: options)
        let cluster: PrivateCluster
        do {
            cluster = try await PrivateCluster.start(options)
        } catch {
            // Nothing can be sealed under it yet. Where there is a cluster already, the next start needs its key.
            if isNew, let masterKeyFile, !options.hasCluster { unsafe unlink(masterKeyFile) }
            throw error
        }
        do {
            try await makeDatabase(cluster)
            let url = cluster.connectionString(database: "peal")
            let connection = try await Database.connect(url, purpose: "up")
            try await Database.migrator(logger: logger).migrate(connection)
            if masterKeyFile != ownKeyFile {
                try await checkKey(masterKey, against: ownKeyFile, Credentials(connection))
            }
            await connection.close()
            let environmentFile = "\(directory)/env"
            let variables = [
                ("PEAL_DATABASE_URL", url), ("PEAL_MASTER_KEY_FILE", masterKeyFile),
                ("PEAL_CA_FILE", try settings.caFile.map(absolutePath)),
            ]
            let lines = variables.compactMap { name, value in value.map { "export \(name)=\(quoted($0))\n" } }
            try write(lines.joined(), to: environmentFile, mode: 0o644)
            return EmbeddedDatabase(
                url: url,
                masterKey: masterKey,
                environmentFile: environmentFile,
                cluster: cluster
            )
        } catch {
            try await cluster.stop()
            throw error
        }
    }

    /// Stops the server in order; everything that was committed is on disk.
    package func stop() async throws {
        try await cluster.stop()
    }

    /// What the server's log says of its end; nil when it still runs after `patience`.
    package func lastWords(within patience: Duration) async -> String? {
        let end = ContinuousClock.now + patience
        while await cluster.isRunning {
            guard ContinuousClock.now < end else { return nil }
            try? await Task.sleep(for: .milliseconds(20))
        }
        return cluster.lastWords
    }

    /// Returns when the server has ended. Throws when the task is cancelled first.
    package func waitUntilEnded() async throws {
        while await cluster.isRunning { try await Task.sleep(for: .milliseconds(500)) }
    }

    /// Refuses a configured key that opens nothing where the directory's own key does: it was set for something else.
    private static func checkKey(_ key: SealingKey, against path: String, _ credentials: Credentials) async throws {
        guard unsafe access(path, F_OK) == 0 else { return }
        let count = try await credentials.list(slug: nil).count
        guard count > 0, try await credentials.openFailures(slug: nil, sealingKey: key).count == count else { return }
        let own = try SealingKey(text: String(decoding: FileContents.read(path, limitBytes: 4096), as: UTF8.self))
        guard try await credentials.openFailures(slug: nil, sealingKey: own).count < count else { return }
        throw CommandError(
            .refused,
            Credentials.opensNone(of: count),
            at: "PEAL_MASTER_KEY or PEAL_MASTER_KEY_FILE",
            advice: "unset it: \(path) is the key that sealed them"
        )
    }

    private static func makeDatabase(_ cluster: PrivateCluster) async throws {
        let connection = try await Database.connect(cluster.connectionString(), purpose: "up")
        let exists = try await connection.query(SQLText.runtimeFindDatabase).bool(0, 0)
        if !exists { try await connection.query(SQLText.runtimeCreateDatabase, deadline: .seconds(60)) }
        await connection.close()
    }

    /// The configured key, or else the directory's own, made at the first start and never again: credentials that were
    /// sealed under a lost key do not open under a new one.
    private static func masterKey(
        _ settings: Settings,
        directory: String,
        cluster: PrivateClusterOptions
    ) throws -> (key: SealingKey, file: String?, isNew: Bool) {
        if let key = try settings.masterKey() { return (key, try settings.masterKeyPath.map(absolutePath), false) }
        let path = "\(directory)/master.key"
        let isNew = unsafe access(path, F_OK) != 0
        if isNew {
            guard !cluster.hasCluster else {
                throw CommandError(
                    .refused,
                    "the master key of this database is missing, and its credentials are sealed under it",
                    at: path,
                    advice: "put the key back there, or name it by PEAL_MASTER_KEY_FILE"
                )
            }
            try write(Hex.encode(try SecureRandom.bytes(32)) + "\n", to: path, mode: 0o600)
        }
        let text = String(decoding: try FileContents.read(path, limitBytes: 4096), as: UTF8.self)
        return (try SealingKey(text: text), path, isNew)
    }

    /// A text as one word of a shell.
    private static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }

    /// Makes the data directory; false when it was there.
    private static func makeDirectory(_ path: String) throws -> Bool {
        // The server may run as another user, who must be able to pass through.
        if unsafe mkdir(path, 0o755) == 0 { return true }
        guard errno == EEXIST else {
            throw CommandError(
                .refused,
                "cannot make the data directory: \(SystemError.text(errno))",
                at: path,
                advice: "name another with --data DIR"
            )
        }
        return false
    }

    private static func absolutePath(_ path: String) throws -> String {
        guard let resolved = unsafe realpath(path, nil) else {
            throw CommandError(.refused, "cannot resolve it: \(SystemError.text(errno))", at: path)
        }
        defer { unsafe free(resolved) }
        return unsafe String(cString: resolved)
    }

    private static func write(_ text: String, to path: String, mode: mode_t) throws {
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw CommandError(.refused, SystemError.text(errno), at: path) }
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        guard unsafe Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
            throw CommandError(.refused, "cannot write it: \(SystemError.text(errno))", at: path)
        }
    }
}
