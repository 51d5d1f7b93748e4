import Postgres

/// What a send would do, with nothing sent.
package struct AudiencePreview: Sendable {
    /// A part of the audience: who would be sent to on a channel, or be skipped for a reason.
    package struct Part: Sendable, Equatable {
        /// `ios`, `android`, or nil for ids that lead to no device.
        package let channel: String?
        /// Why they would be skipped, or nil.
        package let skippedReason: String?
        package let count: Int
        /// Bytes of the payload on that channel before values per recipient.
        package let payloadBytes: Int?
    }

    package let lane: String
    package let parts: [Part]

    /// All recipients, those skipped among them.
    package var audience: Int { parts.reduce(0) { $0 + $1.count } }

    init(job: AcceptedJob, _ rows: PostgresRows) throws(PostgresError) {
        lane = job.lane
        var parts: [Part] = []
        for row in rows.indices {
            parts.append(
                Part(
                    channel: rows.isNull(row, 0) ? nil : try rows.text(row, 0),
                    skippedReason: rows.isNull(row, 1) ? nil : try rows.text(row, 1),
                    count: Int(try rows.int64(row, 2)),
                    payloadBytes: rows.isNull(row, 3) ? nil : Int(try rows.int32(row, 3))
                )
            )
        }
        self.parts = parts
    }
}
