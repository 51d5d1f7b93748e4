import Postgres
import PushCore
import Telemetry

/// Brings up what has become due: scheduled jobs, and batches that waited.
struct DueLoop<LoopClock: Clock> where LoopClock.Duration == Duration {
    /// What it does; both in each turn, unless one of them rests.
    enum Duty: Hashable, CaseIterable {
        case stage
        case promote
    }

    let configuration: SchedulerConfiguration
    let logger: Logger
    let onStaged: @Sendable (Lane) -> Void
    let onReady: @Sendable (Lane) -> Void
    let clock: LoopClock
    var connection: KeptConnection
    var timetable = Timetable<Duty, LoopClock.Instant>()

    /// One step of each; true if there is more that is due. A duty that fails rests, the other goes on.
    mutating func turn() async throws(PostgresError) -> Bool {
        var hasMore = false
        for duty in Duty.allCases where timetable.isDue(duty, at: clock.now) {
            do throws(PostgresError) {
                let connection = try await connection.get()
                let statements = SchedulerStatements(connection: connection, configuration: configuration)
                switch duty {
                case .stage: if try await stage(statements) { hasMore = true }
                case .promote: if try await promote(statements) { hasMore = true }
                }
                timetable.put(duty, off: .zero, from: clock.now)
            } catch {
                try await connection.pass(error)
                logger.dutyFailed(error, times: timetable.rest(duty, from: clock.now))
            }
        }
        return hasMore
    }

    private func stage(_ statements: SchedulerStatements) async throws(PostgresError) -> Bool {
        var total: Int64 = 0
        for (lane, count) in try await statements.stageJobs() {
            total += count
            logger.info("scheduled jobs are due", [.lane: .text(lane.name), .count: .number(count)])
            onStaged(lane)
        }
        return total >= configuration.jobsPerStep
    }

    private func promote(_ statements: SchedulerStatements) async throws(PostgresError) -> Bool {
        var hasMore = false
        for slot in configuration.slots {
            let promoted = try await statements.promoteDelayed(slot: slot)
            guard promoted.taken > 0 else { continue }
            logger.debug("waiting batches were due", [.count: .number(promoted.taken)])
            for lane in promoted.lanes { onReady(lane) }
            if promoted.taken >= configuration.delayedPerStep { hasMore = true }
        }
        return hasMore
    }
}
