package import Postgres
package import PushCore
import SQLText

/// Reads the results of a job a page at a time.
package struct Results: Sendable {
    /// What pages hold, by column.
    package static let columns = columnKinds.map(\.0)
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
    package func read(
        _ job: JobID,
        outcome: String?,
        limit: Int? = nil,
        _ body: ([[Cell]]) throws -> Void
    ) async throws -> Int {
        var last = WallClock.Instant(microsecondsSinceEpoch: .min)
        var lastDevice: Int64 = -1
        var lastExternalID = ""
        var count = 0
        while true {
            let size = min(pageSize, (limit ?? .max) - count)
            let rows = try await connection.query(
                SQLText.adminReadResults,
                [
                    .job(job), .timestamp(last), .int64(lastDevice), .text(lastExternalID), .text(outcome),
                    .int32(Int32(clamping: size)),
                ]
            )
            try body(try rows.cells(Self.columnKinds))
            count += rows.count
            guard rows.count == size, count < limit ?? .max else { return count }
            let end = rows.count - 1
            last = try rows.timestamp(end, 9)
            lastDevice = rows.isNull(end, 0) ? 0 : try rows.int64(end, 0)
            lastExternalID = rows.isNull(end, 1) ? "" : try rows.text(end, 1)
        }
    }
}
