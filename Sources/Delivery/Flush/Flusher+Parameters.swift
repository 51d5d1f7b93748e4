import Postgres
import PushCore

// A flush as parameters of its statements.
extension Flusher {
    /// The whole of a plan in one statement.
    func settlement(_ plan: FlushPlan) -> PostgresParameters {
        parameters(plan, withResults: true, commitsAsynchronously: plan.commitsAsynchronously)
    }

    /// The batches of a plan alone; its results go by COPY.
    func fence(_ plan: FlushPlan) -> PostgresParameters {
        parameters(plan, withResults: false, commitsAsynchronously: false)
    }

    private func parameters(
        _ plan: FlushPlan,
        withResults: Bool,
        commitsAsynchronously: Bool
    ) -> PostgresParameters {
        let units = plan.units
        var parameters: PostgresParameters = [
            .int16(slot), .int64s(units.map(\.row.id.value)), .int64s(units.map(\.row.tag)),
            .uuids(units.map(\.row.lease.value)),
            .byteArrays(units.map(\.done.bytes)), .int32s(units.map { Int32($0.sendingTo) }),
            .int16s(units.map { $0.hasProgress ? 1 : 0 }), .int16s(units.map(\.fate.rawValue)),
            .int64(lease.wholeMillisecondsRoundedUp), .uuids(plan.jobs.map(\.value)), .bool(commitsAsynchronously),
            .int32s(units.map { Int32($0.flushedCount) }),
        ]
        append(results: withResults ? plan.units : [], plan.reasons, to: &parameters)
        return parameters
    }

    private func append(
        results units: [FlushPlan.Unit],
        _ texts: ReasonTable,
        to parameters: inout PostgresParameters
    ) {
        let count = units.reduce(0) { $0 + $1.results.count }
        var parts: [Int32] = []
        var jobs: [UUIDValue] = []
        var devices: [Int64] = []
        var numbers: (routes: [Int16], outcomes: [Int16], attempts: [Int16], statuses: [Int16]) = ([], [], [], [])
        var reasons: [String] = []
        var ids: [String] = []
        var uniqueIDs: [String] = []
        parts.reserveCapacity(count)
        for (place, unit) in units.enumerated() {
            for entry in unit.results.entries {
                parts.append(Int32(place + 1))
                jobs.append(unit.row.job.value)
                devices.append(entry.device)
                numbers.routes.append(unit.row.routeNumber)
                numbers.outcomes.append(entry.kind.outcome.rawValue)
                numbers.attempts.append(Int16(clamping: unit.row.attempt))
                numbers.statuses.append(entry.kind.status)
                reasons.append(texts[entry.kind.reason])
                ids.append(String(decoding: unit.results.id(of: entry), as: UTF8.self))
                uniqueIDs.append(String(decoding: unit.results.uniqueID(of: entry), as: UTF8.self))
            }
        }
        for parameter: PostgresParameter in [
            .int32s(parts), .uuids(jobs), .int64s(devices), .int16s(numbers.routes), .int16s(numbers.outcomes),
            .int16s(numbers.attempts), .int16s(numbers.statuses), .texts(reasons), .texts(ids), .texts(uniqueIDs),
        ] {
            parameters.append(parameter)
        }
    }

    /// The results as one COPY if they are many, else as several of the size that costs least.
    func copyPieces(of plan: FlushPlan) -> [PostgresCopyBuffer] {
        let count = plan.resultCount
        guard count > 0 else { return [] }
        let size = count >= Self.copyWhole ? count : Self.copyPiece
        var pieces: [PostgresCopyBuffer] = []
        var piece = PostgresCopyBuffer(reservingBytes: min(size, count) * 120)
        for unit in plan.units {
            guard let first = unit.results.entries.first else { continue }
            var kind = first.kind
            var template = template(for: kind, in: unit.row, reasons: plan.reasons)
            var templates = [kind: template]
            let ids = unit.results.bytes.span
            for entry in unit.results.entries {
                if entry.kind != kind {
                    kind = entry.kind
                    template = templates[kind] ?? self.template(for: kind, in: unit.row, reasons: plan.reasons)
                    templates[kind] = template
                }
                piece.startRow(like: template, int64: entry.device)
                let middle = Int(entry.idStart) + Int(entry.idCount)
                piece.append(bytesOrNull: ids.extracting(Int(entry.idStart)..<middle))
                piece.append(bytesOrNull: ids.extracting(middle..<middle + Int(entry.uniqueIDCount)))
                if piece.rowCount == size {
                    pieces.append(piece)
                    piece = PostgresCopyBuffer(reservingBytes: size * 120)
                }
            }
        }
        if !piece.isEmpty { pieces.append(piece) }
        return pieces
    }

    /// What the rows of one kind begin with.
    private func template(
        for kind: ResultRows.Kind,
        in batch: ClaimedBatch,
        reasons: ReasonTable
    ) -> PostgresCopyTemplate {
        PostgresCopyTemplate(columnCount: 9) { row in
            row.append(uuid: batch.job.value)
        } after: { row in
            row.append(int16: batch.routeNumber)
            row.append(int16: kind.outcome.rawValue)
            row.append(int16: Int16(clamping: batch.attempt))
            if kind.status == 0 { row.appendNull() } else { row.append(int16: kind.status) }
            if kind.reason == .none { row.appendNull() } else { row.append(text: reasons[kind.reason]) }
        }
    }

    func counts(of plan: FlushPlan) -> PostgresParameters {
        var counts = OutcomeCounts()
        for unit in plan.units {
            for entry in unit.results.entries {
                counts.add(.init(job: unit.row.job, outcome: entry.kind.outcome, reason: entry.kind.reason))
            }
        }
        return [
            .uuids(counts.kinds.map(\.job.value)), .int16s(counts.kinds.map(\.outcome.rawValue)),
            .texts(counts.kinds.map { plan.reasons[$0.reason] }), .int64s(counts.counts),
        ]
    }

    func delays(of plan: FlushPlan) -> PostgresParameters {
        let delays = plan.units.flatMap { unit in unit.delays.map { (unit, $0) } }
        return [
            .int16(slot), .int16(lane.rawValue),
            .nullableInt64s(
                delays.map { _, delay in
                    if case .after(let wait) = delay.due { wait.wholeMillisecondsRoundedUp } else { nil }
                }
            ),
            .int32s(delays.map(\.0.row.app.value)), .uuids(delays.map(\.0.row.job.value)),
            .int16s(delays.map(\.0.row.routeNumber)), .int32s(delays.map(\.0.row.pageNumber)),
            .int32s(delays.map(\.0.row.pageOffset)), .int32s(delays.map { Int32($0.0.row.size) }),
            .int16s(delays.map { Int16(clamping: $0.1.attempt) }), .timestamps(delays.map(\.0.row.expiresAt)),
            .byteArrays(delays.map(\.1.done.bytes)), .texts(delays.map { plan.reasons[$0.1.reason] }),
            .int32s(delays.map { Int32($0.1.sentTo) }),
        ]
    }
}
