import Postgres
import PushCore
import Telemetry

/// Tidies: sweeps ended jobs, rolls counts up, ends complete jobs; and, where it has the role, keeps the partitions.
struct UpkeepLoop<LoopClock: Clock> where LoopClock.Duration == Duration {
    /// What it does, each at its own interval.
    enum Duty: Hashable, CaseIterable {
        case sweep
        case rollUp
        case complete
        case holdRole
        case maintain
    }

    /// The name of the maintenance role in `peal.role_lease`.
    static var role: String { "maintenance" }

    let configuration: SchedulerConfiguration
    let logger: Logger
    let clock: LoopClock
    var connection: KeptConnection
    /// This process among those that stand for the role: new with each start.
    private let holder = UUIDValue.random()
    private var timetable = Timetable<Duty, LoopClock.Instant>()
    private var term: Int64?
    /// Where the slow round over all jobs in hand goes on.
    private var lastLookedAt = JobID(UUIDValue(high: 0, low: 0))

    init(
        _ database: PostgresConfiguration,
        configuration: SchedulerConfiguration,
        logger: Logger,
        clock: LoopClock
    ) {
        self.configuration = configuration
        self.logger = logger
        self.clock = clock
        connection = KeptConnection(database)
    }

    /// Does what is due; true if some of it has more to do at once. A duty that fails rests, the others go on.
    mutating func turn() async throws(PostgresError) -> Bool {
        var hasMore = false
        for duty in Duty.allCases where timetable.isDue(duty, at: clock.now) {
            do throws(PostgresError) {
                let connection = try await connection.get()
                if try await perform(duty, SchedulerStatements(connection: connection, configuration: configuration)) {
                    hasMore = true
                } else {
                    timetable.put(duty, off: interval(of: duty), from: clock.now)
                }
            } catch {
                try await connection.pass(error)
                logger.dutyFailed(error, times: timetable.rest(duty, from: clock.now))
            }
        }
        return hasMore
    }

    /// Gives the role up, so that another process has it at once, and closes the connection.
    mutating func resign() async throws(PostgresError) {
        if term != nil {
            let statements = SchedulerStatements(connection: try await connection.get(), configuration: configuration)
            try await statements.resignRole(Self.role, holder: holder)
            term = nil
        }
        await connection.close()
    }

    private func interval(of duty: Duty) -> Duration {
        switch duty {
        case .sweep: configuration.sweepInterval
        case .rollUp: configuration.rollUpInterval
        case .complete: configuration.completionInterval
        case .holdRole: configuration.roleLease / 3
        case .maintain: configuration.maintenanceInterval
        }
    }

    /// Does one step of a duty; true if the next step should follow at once.
    private mutating func perform(_ duty: Duty, _ statements: SchedulerStatements) async throws(PostgresError) -> Bool {
        switch duty {
        case .sweep:
            let settled = try await statements.sweepEndedJobs()
            if settled > 0 { logger.debug("ended jobs swept", [.count: .number(settled)]) }
            return settled > 0
        case .rollUp:
            let result = try await statements.rollUp()
            if result.completed > 0 { logger.info("jobs ended", [.count: .number(result.completed)]) }
            return result.taken >= configuration.countsPerStep
        case .complete:
            let result = try await statements.completeJobs(after: lastLookedAt)
            if result.completed > 0 { logger.info("jobs ended", [.count: .number(result.completed)]) }
            lastLookedAt = result.last ?? JobID(UUIDValue(high: 0, low: 0))
            return result.last != nil
        case .holdRole:
            try await holdRole(statements)
            return false
        case .maintain:
            guard term != nil else { return false }
            return try await maintain(statements)
        }
    }

    private mutating func holdRole(_ statements: SchedulerStatements) async throws(PostgresError) {
        let newTerm = try await statements.holdRole(Self.role, holder: holder)
        if newTerm != nil, term == nil {
            logger.info("this process keeps the partitions", [.roleName: .text(Self.role)])
            timetable.put(.maintain, off: .zero, from: clock.now)
        } else if newTerm == nil, term != nil {
            logger.info("another process keeps the partitions", [.roleName: .text(Self.role)])
        }
        term = newTerm
    }

    /// Makes partitions ahead, then drops one old one; true while there may be more to drop.
    private func maintain(_ statements: SchedulerStatements) async throws(PostgresError) -> Bool {
        let made = try await statements.makePartitions()
        if made > 0 { logger.info("day partitions made", [.count: .number(made)]) }
        do throws(PostgresError) {
            guard let dropped = try await statements.dropOldPartition() else { return false }
            logger.info("a day that is too old was dropped, or jobs of it", [.path: .text(dropped)])
            return true
        } catch {
            // Somebody reads the table: the next round will find it free.
            guard error.sqlState == "55P03" else { throw error }
            logger.info("an old partition is in use and was kept for now", [.errorCode: .describing(error.code)])
            return false
        }
    }
}
