package import Postgres
package import PushCore
import SQLText
package import Telemetry

/// The database connection of a command.
package enum Database {
    /// Connects as the settings say, and makes sure that the schema fits. Warns about variables that mean nothing.
    package static func open(
        _ settings: Settings = .fromEnvironment(),
        purpose: String
    ) async throws -> PostgresConnection {
        warnAboutUnknownVariables(settings)
        let connection = try await connect(settings.requireDatabaseURL(), purpose: purpose)
        try await migrator().schemaRangeCheck(connection)
        return connection
    }

    /// Connects directly and applies the migrations that are missing, which are returned.
    package static func migrate(
        _ settings: Settings = .fromEnvironment(),
        logger: Logger = Logger(level: .warning)
    ) async throws -> [SQLMigration] {
        warnAboutUnknownVariables(settings)
        let connection = try await connect(settings.requireDirectDatabaseURL(), purpose: "migrate")
        return try await migrator(logger: logger).migrate(connection)
    }

    /// What brings a database to the schema of this binary, and tells whether it fits.
    package static func migrator(logger: Logger = Logger(level: .warning)) -> Migrator {
        Migrator(migrations: SQLText.migrations, statements: SQLText.migratorStatements, logger: logger)
    }

    static func connect(_ url: String, purpose: String) async throws -> PostgresConnection {
        try await PostgresConnection.connect(PostgresConfiguration(url, applicationName: "peal \(purpose)"))
    }

    private static func warnAboutUnknownVariables(_ settings: Settings) {
        for variable in settings.unknownVariables {
            let guess = variable.nearest.map { "; did you mean \($0)?" } ?? ""
            StandardOutput.error("peal: warning: \(variable.name) means nothing\(guess)")
        }
    }
}

extension PostgresRows {
    /// A cell of any column that a command prints: null, text, number, boolean, time or UUID, whichever it is.
    func cell(_ row: Int, _ column: Int, _ kind: CellKind) throws(PostgresError) -> Cell {
        if isNull(row, column) { return .null }
        switch kind {
        case .text: return .text(try text(row, column))
        case .number: return .number(Int(try int64(row, column)))
        case .boolean: return .boolean(try bool(row, column))
        case .time: return .text(try timestamp(row, column).description)
        case .uuid: return .text(try uuid(row, column).description)
        case .json: return .json(try text(row, column))
        }
    }

    /// All rows as cells; the columns are those that begin the statement's list.
    func cells(_ columns: [(String, CellKind)]) throws(PostgresError) -> [[Cell]] {
        var result: [[Cell]] = []
        for row in indices {
            var cells: [Cell] = []
            for (index, column) in columns.enumerated() { cells.append(try cell(row, index, column.1)) }
            result.append(cells)
        }
        return result
    }
}

/// How a column of a statement is printed.
enum CellKind: Sendable {
    case text, number, boolean, time, uuid, json
}
