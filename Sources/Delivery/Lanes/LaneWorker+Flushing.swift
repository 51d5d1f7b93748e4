import HTTP2
import Postgres
import PushCore
import SQLText
import Telemetry

// Flushing: results, bitmaps and leases of everything in hand, in one transaction.
extension LaneWorker {
    func isFlushDue(now: ContinuousClock.Instant) -> Bool {
        if let flushRetryAt, now < flushRetryAt { return false }
        if pendingPlan != nil || controlWanted || unflushedCount >= settings.flushCount { return true }
        let elapsed = now - flushedAt
        if unflushedCount > 0 {
            // With nothing out there is no more to come that a flush could take along.
            let isQuiet = batches.values.allSatisfy { $0.outstanding == 0 }
            return elapsed >= (isQuiet ? settings.flushInterval / 10 : settings.flushInterval)
        }
        return !batches.isEmpty && elapsed >= settings.controlInterval
    }

    /// Writes what there is. A failure keeps everything for the next try; nothing is claimed meanwhile.
    func flush() async {
        defer {
            isFlushing = false
            inbox.signal.wake()
        }
        let startedAt = ContinuousClock.now
        do {
            let connection = try await writer.get()
            if let plan = pendingPlan {
                try await write(plan, again: true, on: connection, startedAt: startedAt)
            } else {
                await readStreams(now: startedAt)
                let plan = makePlan(now: startedAt)
                pendingPlan = plan
                try await write(plan, again: false, on: connection, startedAt: startedAt)
            }
            pendingPlan = nil
            isPlanUncertain = false
            flushedAt = startedAt
            if flushFailures > 0 { logger.info("Results are written again") }
            flushFailures = 0
            flushRetryAt = nil
        } catch {
            // One that was stopped with the worker is told of there.
            if !Task.isCancelled { noteFlushFailure(error) }
        }
    }

    private func noteFlushFailure(_ error: any Error) {
        flushFailures += 1
        // An error that the server reported undid the flush; without an answer, or when the server went, nobody knows.
        let postgresError = error as? PostgresError
        if postgresError?.sqlState == nil || postgresError?.closesConnection ?? false {
            isPlanUncertain = pendingPlan != nil
        }
        let backoff = Backoff(first: .milliseconds(100), longest: .seconds(3))
        flushRetryAt = .now + backoff.delay(afterFailures: flushFailures, atLeast: .milliseconds(50))
        let level: Logger.Level =
            postgresError?.isRetryable ?? true || postgresError?.code == .commitUncertain ? .warning : .error
        logger.log(
            flushFailures == 1 ? level : .debug,
            "Results cannot be written and are kept; nothing more is claimed until they are",
            [.errorMessage: .text("\(error)"), .count: .number(pendingPlan?.resultCount ?? 0)]
        )
    }

    private func write(
        _ plan: FlushPlan,
        again: Bool,
        on connection: PostgresConnection,
        startedAt: ContinuousClock.Instant
    ) async throws {
        var plan = plan
        if again, isPlanUncertain {
            let remainder = try await flusher.remainder(of: plan, on: connection)
            for unit in plan.units {
                if remainder.written.contains(unit.number) { flushed(unit, startedAt: startedAt) }
                if remainder.ended.contains(unit.number) { ended(unit) }
                if remainder.lost.contains(unit.number) { lost(unit) }
            }
            plan = plan.keeping(remainder.unwritten)
            pendingPlan = plan
            isPlanUncertain = false
        }
        let report = try await writeIntoPartitions(plan, on: connection)
        pendingPlan = nil
        logFlushed(plan, startedAt: startedAt)
        // Before the windows: what was stopped meanwhile gets none.
        for (job, control) in report.controls { take(control, of: job) }
        let safeUntil = report.controlsReadAt + BatchInHand.controlPatience
        for batch in batches.values where report.controls[batch.row.job] != nil {
            batch.controlSafeUntil = max(batch.controlSafeUntil, safeUntil)
        }
        for unit in plan.units {
            if report.ours.contains(unit.number) {
                flushed(unit, startedAt: startedAt)
            } else {
                lost(unit)
            }
        }
    }

    /// Writes a plan; where the day has no partition for the results, makes those of the coming days and tries once more.
    private func writeIntoPartitions(
        _ plan: FlushPlan,
        on connection: PostgresConnection
    ) async throws -> FlushReport {
        do {
            return try await flusher.write(plan, on: connection)
        } catch let error as PostgresError where error.sqlState?.text == "23514" {
            _ = try await connection.query(SQLText.schedulerMakePartitions, [.int32(7)])
            logger.warning("Day partitions were missing and have been made")
            return try await flusher.write(plan, on: connection)
        }
    }

    /// Takes out of the batches what is to be written. Batches that have nothing to say and a fresh lease are left out.
    private func makePlan(now: ContinuousClock.Instant) -> FlushPlan {
        widenWindows()
        var units: [FlushPlan.Unit] = []
        // What is left of a lease when it is renewed: three quarters of it were safe from the start.
        let renewal = settings.lease * 5 / 12
        for batch in batches.values.sorted(by: { $0.row.id < $1.row.id }) {
            guard
                batch.hasProgress || batch.lifecycle.isEnding || batch.wantedTo != batch.permittedTo
                    || batch.leaseSafeUntil - now <= renewal
            else { continue }
            let isReleased = batch.lifecycle.withdrawal == .released && batch.remaining > 0
            units.append(
                FlushPlan.Unit(
                    number: batch.number,
                    row: batch.row,
                    done: batch.done,
                    flushedCount: batch.flushedCount,
                    // What is given back was not sent by us: every answer was awaited.
                    sendingTo: batch.lifecycle.isEnding ? batch.row.sentTo : batch.wantedTo,
                    hasProgress: batch.hasProgress,
                    fate: !batch.lifecycle.isEnding ? .keep : isReleased ? .release : .finish,
                    results: batch.results,
                    delays: batch.delays.groups
                )
            )
            batch.results = ResultRows()
            batch.delays = Delays()
            batch.hasProgress = false
        }
        unflushedCount = 0
        controlWanted = false
        return FlushPlan(
            units: units,
            jobs: Array(jobs.keys),
            // The flush that leaves nothing in hand waits for the disk, so that what looks done is done, and with it all
            // that was committed before.
            commitsAsynchronously: lane == .campaign && units.filter { $0.fate != .keep }.count < batches.count
                && units.allSatisfy { unit in batches[unit.number]?.doubt == .resend },
            reasons: reasons
        )
    }

    /// Asks the pools whose batches could send more how many streams they allow.
    private func readStreams(now: ContinuousClock.Instant) async {
        if let streamsReadAt, now - streamsReadAt < Self.streamsInterval, !batches.values.contains(where: \.isLimited) {
            return
        }
        streamsReadAt = now
        var read: [PoolID: Int] = [:]
        for pool in Set(batches.values.compactMap(\.dispatch?.pool)) {
            guard let status = await client.status(of: pool) else { continue }
            read[pool] = max(status.streamsAllowed, status.streamsInFlight)
        }
        streams = read
    }

    /// How old the number of streams may be for a claim's first windows.
    private static let streamsInterval: Duration = .milliseconds(250)

    /// What is permitted ahead now.
    func aheadBudget() -> AheadBudget<PoolID> {
        var budget = AheadBudget(limit: settings.aheadLimit, streams: streams, pace: pace)
        budget.add(reservedAhead, to: nil)
        for batch in batches.values { budget.add(batch.ahead, to: batch.dispatch?.pool) }
        return budget
    }

    /// Asks for permission to send more, the oldest batches first.
    private func widenWindows() {
        notePace()
        let limited = batches.values.filter(\.isLimited).sorted { $0.number < $1.number }
        guard !limited.isEmpty else { return }
        var budget = aheadBudget()
        for batch in limited {
            guard let pool = batch.dispatch?.pool else { continue }
            budget.add(batch.widenWindow(by: budget.room(for: pool)), to: pool)
        }
    }

    /// A flush that comes soon after another one has little to tell, so that the pace falls by half at most.
    private func notePace() {
        var settled: [PoolID: Int] = [:]
        for batch in batches.values {
            guard let pool = batch.dispatch?.pool else { continue }
            settled[pool, default: 0] += batch.results.count
        }
        var present: [PoolID: Int] = [:]
        for (pool, count) in settled {
            present[pool] = min(settings.aheadLimit, max(count * 4, pace[pool, default: 0] / 2))
        }
        pace = present
    }

    private func flushed(_ unit: FlushPlan.Unit, startedAt: ContinuousClock.Instant) {
        guard let batch = batches[unit.number] else { return }
        batch.flushedCount = unit.done.setCount
        switch unit.fate {
        case .keep:
            batch.leaseSafeUntil = max(batch.leaseSafeUntil, startedAt + settings.lease * 3 / 4)
            // Half of what is not on the wire: the streams are to stay filled meanwhile.
            let waiting = aheadBudget().excess(of: batch.dispatch?.pool)
            batch.permit(to: unit.sendingTo, step: max(12, waiting / 2))
            advance(batch)
        case .release, .finish:
            batch.lifecycle.flushed()
            forget(batch)
        }
    }

    /// The row is gone that a commit without an answer was to end.
    private func ended(_ unit: FlushPlan.Unit) {
        guard let batch = batches[unit.number] else { return }
        logger.debug(
            "A batch was ended by a flush whose commit had no answer",
            [.batchID: .describing(unit.row.id), .jobID: .describing(unit.row.job)]
        )
        batch.lifecycle.flushed()
        forget(batch)
    }

    private func lost(_ unit: FlushPlan.Unit) {
        guard let batch = batches[unit.number] else { return }
        lose(batch, count: unit.results.count + batch.results.count)
    }

    /// Drops a batch whose lease somebody else has.
    func lose(_ batch: BatchInHand, count: Int) {
        logger.warning(
            "The lease of a batch was lost: nothing more of it is sent or written here",
            [
                .batchID: .describing(batch.row.id), .jobID: .describing(batch.row.job), .count: .number(count),
            ]
        )
        withdraw(batch, .lost)
    }

    private func take(_ control: JobControl, of job: JobID) {
        guard let present = jobs[job], present.control != control else { return }
        jobs[job]?.control = control
        for batch in Array(batches.values) where batch.row.job == job {
            switch control {
            case .runs: break
            case .paused: withdraw(batch, .held)
            case .cancelled: withdraw(batch, .cancelled)
            }
        }
    }
}
