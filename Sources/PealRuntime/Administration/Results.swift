package import Postgres
package import PushCore
import SQLText

/// Reads the results of a job a page at a time.
package struct Results: Sendable {
    /// What pages hold, by column.
    package static let columns = columnKinds.map(\.0)
    /// Columns whose values are long and differ at their end.
    package static let longColumns: Set<String> = ["provider_id", "provider_unique_id"]
    /// The outcomes that a result can have.
    package static let outcomes = ["accepted", "rejected", "skipped", "expired", "superseded", "cancelled", "unknown"]
    private static let columnKinds: [(String, CellKind)] = [
        ("device_id", .number), ("external_id", .text), ("channel", .text), ("outcome", .text), ("reason", .text),
        ("http_status", .number), ("provider_id", .text), ("provider_unique_id", .text), ("attempt", .number),
        ("recorded_at", .time),
    ]

    private let connection: PostgresConnection
    private let pageSize: Int

    package init(_ connection: PostgresConnection, pageSize: Int = 20_000) {
        self.connection = connection
        self.pageSize = pageSize
    }

    /// Hands the results recorded so far to `body`, in the order in which they were recorded, and returns how many.
    ///
    /// Time is walked through in stretches that are fitted to hold about a page, so the cost per result does not grow.
    package func read(
        _ job: JobID,
        outcome: String?,
        limit: Int? = nil,
        _ body: ([[Cell]]) throws -> Void
    ) async throws -> Int {
        let bounds = try await connection.query(SQLText.adminBoundResults, [.job(job)])
        var position = Position(at: bounds.isNull(0, 0) ? WallClock.now() : try bounds.timestamp(0, 0))
        let end = bounds.isNull(0, 1) ? position.at : try bounds.timestamp(0, 1)
        var stretch = Duration.seconds(1)
        var count = 0
        while true {
            let size = min(pageSize, (limit ?? .max) - count)
            let upTo = min(position.at + stretch, end)
            let rows = try await page(of: job, after: position, upTo: upTo, outcome, size)
            // An empty page prints the header of an empty list.
            if !rows.isEmpty || count == 0 && upTo == end { try body(try rows.cells(Self.columnKinds)) }
            count += rows.count
            if count == limit ?? .max || (rows.count < size && upTo == end) { return count }
            if rows.count < size {
                position = Position(at: upTo + .microseconds(1))
                stretch *= 4
            } else {
                let last = try Position(rows, rows.count - 1)
                stretch = max((last.at - position.at) * 2, .milliseconds(1))
                position = last
            }
        }
    }

    /// Where a page ended: its last row.
    private struct Position {
        let at: WallClock.Instant
        var device: Int64 = -1
        var externalID = ""

        init(at: WallClock.Instant) {
            self.at = at
        }

        init(_ rows: PostgresRows, _ row: Int) throws(PostgresError) {
            at = try rows.timestamp(row, 9)
            device = rows.isNull(row, 0) ? 0 : try rows.int64(row, 0)
            externalID = rows.isNull(row, 1) ? "" : try rows.text(row, 1)
        }
    }

    private func page(
        of job: JobID,
        after position: Position,
        upTo: WallClock.Instant,
        _ outcome: String?,
        _ size: Int
    ) async throws(PostgresError) -> PostgresRows {
        try await connection.query(
            SQLText.adminReadResults,
            [
                .job(job), .timestamp(position.at), .int64(position.device), .text(position.externalID),
                .timestamp(upTo), .text(outcome), .int32(Int32(clamping: size)),
            ]
        )
    }
}
