package import OpenSSL
package import Telemetry

/// What the environment says: the database, the master key, the trusted certificates.
package struct Settings: Sendable {
    /// `PEAL_DATABASE_URL`, a libpq connection string or URI; may lead through PgBouncer.
    package let databaseURL: String?
    /// `PEAL_DIRECT_DATABASE_URL`, for LISTEN and migrations where the first leads through PgBouncer.
    package let directDatabaseURL: String?
    /// `PEAL_CA_FILE`, a PEM file of certificates to trust beside the system's.
    package let caFile: String?
    /// Variables that begin with `PEAL_` and mean nothing, with the name that was probably meant.
    package let unknownVariables: [(name: String, nearest: String?)]
    private let masterKeyText: String?
    private let masterKeyFile: String?
    private let logLevel: String?
    private let logFormat: String?
    private let retention: String?

    /// Every variable that peal reads.
    package static let variables = [
        "PEAL_DATABASE_URL", "PEAL_DIRECT_DATABASE_URL", "PEAL_CA_FILE", "PEAL_MASTER_KEY", "PEAL_MASTER_KEY_FILE",
        "PEAL_LOG_LEVEL", "PEAL_LOG_FORMAT", "PEAL_RETENTION_DAYS",
    ]

    /// The settings of this process. An empty variable counts as absent.
    package static func fromEnvironment() -> Settings {
        Settings(variables: ProcessEnvironment.variables())
    }

    /// The settings that these variables give.
    package init(variables: [String: String]) {
        func value(_ name: String) -> String? {
            variables[name].flatMap { $0.isEmpty ? nil : $0 }
        }
        databaseURL = value("PEAL_DATABASE_URL")
        directDatabaseURL = value("PEAL_DIRECT_DATABASE_URL")
        caFile = value("PEAL_CA_FILE")
        masterKeyText = value("PEAL_MASTER_KEY")
        masterKeyFile = value("PEAL_MASTER_KEY_FILE")
        logLevel = value("PEAL_LOG_LEVEL")
        logFormat = value("PEAL_LOG_FORMAT")
        retention = value("PEAL_RETENTION_DAYS")
        unknownVariables = variables.keys.sorted()
            .filter { $0.hasPrefix("PEAL_") && !Self.variables.contains($0) }
            .map { ($0, NearestName.of($0, among: Self.variables)) }
    }

    /// The connection string, or status 3 with how to set it.
    package func requireDatabaseURL() throws(CommandError) -> String {
        guard let databaseURL else {
            throw CommandError(
                .databaseUnreachable,
                "no database is configured",
                at: "PEAL_DATABASE_URL is not set",
                advice: "set it to a libpq URI such as postgresql://user@host/database, or start one with 'peal up'"
            )
        }
        return databaseURL
    }

    /// The direct connection string, which falls back to the ordinary one.
    package func requireDirectDatabaseURL() throws(CommandError) -> String {
        if let directDatabaseURL { return directDatabaseURL }
        return try requireDatabaseURL()
    }

    /// The file that holds the master key, where one is configured.
    package var masterKeyPath: String? { masterKeyFile }

    /// The master key, or nil when none is configured. Throws when it is configured and unusable.
    package func masterKey() throws(CommandError) -> SealingKey? {
        switch (masterKeyText, masterKeyFile) {
        case (nil, nil): return nil
        case (.some, .some):
            throw CommandError(
                .refused,
                "both PEAL_MASTER_KEY and PEAL_MASTER_KEY_FILE are set",
                advice: "unset one of them"
            )
        case (.some(let text), nil): return try Self.key(text, source: "PEAL_MASTER_KEY")
        case (nil, .some(let path)):
            let source = "PEAL_MASTER_KEY_FILE, \(path)"
            do {
                let text = String(decoding: try FileContents.read(path, limitBytes: 4096), as: UTF8.self)
                return try Self.key(text, source: source)
            } catch {
                throw CommandError(error.status, error.what, at: source, advice: error.advice)
            }
        }
    }

    /// The master key, or status 4 with how to make one.
    package func requireMasterKey() throws(CommandError) -> SealingKey {
        guard let key = try masterKey() else {
            throw CommandError(
                .refused,
                "no master key is configured, and credentials are sealed under it",
                at: "PEAL_MASTER_KEY or PEAL_MASTER_KEY_FILE",
                advice: "make one with: openssl rand -hex 32 > master.key, then set PEAL_MASTER_KEY_FILE=master.key"
            )
        }
        return key
    }

    /// The file of further trusted roots, or nil when none is configured. Throws status 4 when it cannot be used.
    package func usableCAFile() throws(CommandError) -> String? {
        do {
            _ = try TLSContext(trustingAlso: caFile)
            return caFile
        } catch {
            throw CommandError(.refused, error.message, advice: "correct PEAL_CA_FILE or unset it")
        }
    }

    /// The logger of a working process: `PEAL_LOG_LEVEL` (default info), `PEAL_LOG_FORMAT` (default text on a terminal,
    /// else json). Throws status 2 for a word that is neither.
    package func logger() throws(CommandError) -> Logger {
        Logger(
            level: try Self.choice(logLevel, "PEAL_LOG_LEVEL") ?? .info,
            format: try Self.choice(logFormat, "PEAL_LOG_FORMAT") ?? (StandardOutput.errorIsTerminal ? .text : .json)
        )
    }

    /// `PEAL_RETENTION_DAYS`, how many days results are kept, or nil when it is not set. Throws status 2 for what is not
    /// a whole number from 1 to 3,650.
    package func retentionDays() throws(CommandError) -> Int32? {
        guard let retention else { return nil }
        guard let days = Int32(retention), 1...3_650 ~= days else {
            throw CommandError(
                .usage,
                "'\(retention)' is not a whole number from 1 to 3650",
                at: "PEAL_RETENTION_DAYS",
                advice: "set how many days results are to be kept, or unset it for 35"
            )
        }
        return days
    }

    private static func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ text: String?,
        _ variable: String
    ) throws(CommandError) -> Choice? {
        guard let text else { return nil }
        guard let choice = Choice(rawValue: text) else {
            let known = Choice.allCases.map(\.rawValue).joined(separator: ", ")
            throw CommandError(.usage, "'\(text)' is none of \(known)", at: variable)
        }
        return choice
    }

    private static func key(_ text: String, source: String) throws(CommandError) -> SealingKey {
        do {
            return try SealingKey(text: text)
        } catch {
            throw CommandError(.refused, error.message, at: source)
        }
    }
}
