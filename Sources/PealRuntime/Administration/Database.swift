package import Postgres
import PushCore
import SQLText

/// The database connection of a command.
package enum Database {
    /// Connects as the settings say, and warns about variables that mean nothing.
    package static func open(
        _ settings: Settings = .fromEnvironment(),
        purpose: String
    ) async throws -> PostgresConnection {
        for variable in settings.unknownVariables {
            let guess = variable.nearest.map { "; did you mean \($0)?" } ?? ""
            StandardOutput.error("peal: warning: \(variable.name) means nothing\(guess)")
        }
        let url = try settings.requireDatabaseURL()
        return try await PostgresConnection.connect(
            PostgresConfiguration(url, applicationName: "peal \(purpose)")
        )
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
