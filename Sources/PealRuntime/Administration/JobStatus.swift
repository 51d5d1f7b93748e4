import Postgres
package import PushCore

/// The status of one job, as `peal.job_status` has it.
package struct JobStatus: Sendable {
    package let id: JobID
    package let app: String
    package let state: String
    package let audience: Int
    /// Counts by outcome, in the order of the outcomes, zeros included.
    package let outcomes: [(name: String, count: Int)]
    package let remaining: Int
    /// Counts by `outcome:reason`, as JSON text.
    package let byReason: String
    /// Why a job was discarded.
    package let failure: String?
    package let isFrozen: Bool
    package let isCompleted: Bool
    /// Every column with its name, as a command prints it.
    package let cells: [(String, Cell)]

    private static let columnKinds: [(String, CellKind)] = [
        ("id", .uuid), ("app", .text), ("kind", .text), ("lane", .text), ("state", .text), ("audience", .number),
        ("accepted", .number), ("rejected", .number), ("skipped", .number), ("expired", .number),
        ("superseded", .number), ("cancelled", .number), ("unknown", .number), ("remaining", .number),
        ("by_reason", .json), ("failure", .text), ("collapse_id", .text), ("queued_at", .time), ("send_at", .time),
        ("expires_at", .time), ("started_at", .time), ("frozen_at", .time), ("paused_at", .time),
        ("cancelled_at", .time), ("completed_at", .time),
    ]

    init(_ rows: PostgresRows, _ row: Int) throws(PostgresError) {
        id = JobID(try rows.uuid(row, 0))
        app = try rows.text(row, 1)
        state = try rows.text(row, 4)
        audience = Int(try rows.int64(row, 5))
        var outcomes: [(name: String, count: Int)] = []
        for column in 6...12 {
            outcomes.append((Self.columnKinds[column].0, Int(try rows.int64(row, column))))
        }
        self.outcomes = outcomes
        remaining = Int(try rows.int64(row, 13))
        byReason = try rows.text(row, 14)
        failure = rows.isNull(row, 15) ? nil : try rows.text(row, 15)
        isFrozen = !rows.isNull(row, 21)
        isCompleted = !rows.isNull(row, 24)
        var cells: [(String, Cell)] = []
        for (column, kind) in Self.columnKinds.enumerated() {
            cells.append((kind.0, try rows.cell(row, column, kind.1)))
        }
        self.cells = cells
    }

    /// How many recipients an outcome has.
    package func count(_ outcome: String) -> Int {
        outcomes.first { $0.name == outcome }?.count ?? 0
    }

    /// Whether nothing more will happen to it.
    package var hasEnded: Bool { isCompleted || state == "discarded" }

    /// Outcomes that happened, such as `90 accepted, 10 rejected`.
    package var summary: String {
        outcomes.filter { $0.count > 0 }.map { "\(Digits.grouped($0.count)) \($0.name)" }.joined(separator: ", ")
    }

    /// How it ended, for people: its outcomes, and below them the reasons of those that have one.
    package func endLines() throws -> [String] {
        // Only of a completed job everybody was counted.
        let outcome = summary.isEmpty && state == "completed" ? "an empty audience" : summary
        var lines = [outcome.isEmpty ? "\(id) \(state)" : "\(id) \(state): \(outcome)"]
        let reasons = try reasonSummary()
        if !reasons.isEmpty { lines.append("reasons: \(reasons)") }
        return lines
    }

    /// The most frequent reasons, such as `6 rejected BadDeviceToken, 2 skipped no_device`; empty when there is none.
    private func reasonSummary() throws -> String {
        guard case .object(let counts) = try JSONValue.parse(Array(byReason.utf8), root: "by_reason") else { return "" }
        let reasons = counts.members
            .map { member in
                let count = if case .number(let number) = member.value { number.wholeNumber ?? 0 } else { 0 }
                return (name: member.key.split(separator: ":", maxSplits: 1).joined(separator: " "), count: count)
            }
            .sorted { ($1.count, $0.name) < ($0.count, $1.name) }
        let shown = reasons.prefix(Self.shownReasons).map { "\(Digits.grouped($0.count)) \($0.name)" }
        let rest = reasons.count - shown.count
        return (shown + (rest > 0 ? ["\(rest) more kinds"] : [])).joined(separator: ", ")
    }

    private static let shownReasons = 10
}
