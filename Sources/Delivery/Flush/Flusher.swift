import Postgres
import PushCore
import SQLText

/// Writes flushes: fence, results, counts and delays, all or nothing.
///
/// A few results go in one statement and one round trip. Many go by COPY in a transaction: in PostgreSQL 15 a COPY of
/// 1,000 rows costs the server 2 to 3 µs a row, one of 250 or of 5,000 and more 1 to 2. From 2,000 on a single one costs
/// no more than pieces of 250 (measured: 1.5 against 2.0 µs, by another machine's measure 2.2 against 1.5), and is one
/// round trip in place of many.
struct Flusher: Sendable {
    let lane: Lane
    let slot: Int16
    let lease: Duration

    static let statementLimit = 250
    static let copyPiece = 250
    static let copyWhole = 2_000

    /// Writes a plan. When it throws, nothing was written, unless the error says that the commit is uncertain.
    func write(_ plan: FlushPlan, on connection: PostgresConnection) async throws -> FlushReport {
        if plan.resultCount <= Self.statementLimit, !plan.hasDelays {
            let startedAt = ContinuousClock.now
            let rows = try await connection.query(SQLText.deliverySettleBatches[lane], settlement(plan))
            return try report(rows, readAt: startedAt, of: plan)
        }
        return try await writeMany(plan, on: connection)
    }

    /// The results go first and the batches last, so that their rows are locked for one round trip and not while a COPY
    /// waits for the next piece: a worker that is stopped in the middle of one holds up nobody.
    ///
    /// What somebody else holds the lease of by then undoes all of it, and the rest is written anew.
    private func writeMany(_ plan: FlushPlan, on connection: PostgresConnection) async throws -> FlushReport {
        let options = TransactionOptions(commitsAsynchronously: plan.commitsAsynchronously)
        var plan = plan
        while true {
            let written = plan
            let pieces = copyPieces(of: written)
            var statements = [(SQLText.deliverySettleBatches[lane], fence(written))]
            if written.resultCount > 0 { statements.append((SQLText.deliveryCountOutcomes, counts(of: written))) }
            if written.hasDelays { statements.append((SQLText.deliveryDelayRecipients, delays(of: written))) }
            let last = statements
            do {
                return try await connection.transaction(options) { connection in
                    for piece in pieces { try await connection.copyIn(SQLText.deliveryCopyResults, rows: piece) }
                    let startedAt = ContinuousClock.now
                    let report = try report(try await connection.pipeline(last)[0], readAt: startedAt, of: written)
                    guard written.units.allSatisfy({ report.ours.contains($0.number) }) else {
                        throw LostLeases(ours: report.ours)
                    }
                    return report
                }
            } catch let error as LostLeases {
                plan = written.keeping(error.ours)
            }
        }
    }

    /// Some batches of a flush are somebody else's: nothing was written.
    private struct LostLeases: Error {
        /// The numbers of those that are still ours.
        let ours: Set<Int>
    }

    /// Finds out which parts of a plan are still to be written, after a commit of which it is not known whether it
    /// took place.
    ///
    /// A row that is gone, or that another lease holds, is not ours to write: either our flush ended it or gave it back,
    /// or somebody else has it. A row that has our lease and our bits was written.
    func remainder(of plan: FlushPlan, on connection: PostgresConnection) async throws -> FlushRemainder {
        let rows = try await connection.query(
            SQLText.deliveryReadBatches[lane],
            [.int16(slot), .int64s(plan.units.map(\.row.id.value))]
        )
        var found: [Int64: (lease: LeaseToken, done: [UInt8])] = [:]
        for row in rows.indices {
            found[try rows.int64(row, 0)] = (
                LeaseToken(try rows.uuidOrNil(row, 1) ?? UUIDValue(high: 0, low: 0)), try rows.bytes(row, 2)
            )
        }
        var remainder = FlushRemainder()
        for unit in plan.units {
            guard let present = found[unit.row.id.value], present.lease == unit.row.lease else {
                let wasEnded =
                    switch unit.fate {
                    case .keep: false
                    case .release: true
                    case .finish: found[unit.row.id.value] == nil
                    }
                if wasEnded { remainder.ended.insert(unit.number) } else { remainder.lost.insert(unit.number) }
                continue
            }
            // Without a new bit there is no telling, and writing it twice does no harm: it holds no result.
            let isWritten =
                unit.done.setCount > unit.flushedCount && unit.fate != .finish
                && Bitmap(bytes: present.done, count: unit.done.count).isSuperset(of: unit.done)
            if isWritten { remainder.written.insert(unit.number) } else { remainder.unwritten.insert(unit.number) }
        }
        return remainder
    }

    private func report(
        _ rows: PostgresRows,
        readAt: ContinuousClock.Instant,
        of plan: FlushPlan
    ) throws(PostgresError) -> FlushReport {
        var report = FlushReport(controlsReadAt: readAt)
        for row in rows.indices {
            if let part = try rows.int64OrNil(row, 0) {
                report.ours.insert(plan.units[Int(part) - 1].number)
            } else {
                let job = JobID(try rows.uuid(row, 1))
                report.controls[job] = JobControl(state: try rows.text(row, 2), isPaused: try rows.bool(row, 3))
            }
        }
        return report
    }
}

/// How much of a plan was written.
struct FlushRemainder {
    /// Written by an earlier try.
    var written: Set<Int> = []
    /// To be written.
    var unwritten: Set<Int> = []
    /// Ended or given back by an earlier try. Or lost: their rows do not tell, and nothing is left to do either way.
    var ended: Set<Int> = []
    /// No longer ours.
    var lost: Set<Int> = []
}
