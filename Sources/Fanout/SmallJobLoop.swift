import Postgres
import PushCore
import Telemetry

/// Takes urgent jobs with few recipients from `available` to ready batches, on a connection of its own, so that no
/// campaign's freeze is ever in front of them.
struct SmallJobLoop<LoopClock: Clock> where LoopClock.Duration == Duration {
    /// A look at young jobs alone: it costs the same whatever old snapshots keep alive.
    private static var youngAge: Duration { .seconds(10) }
    /// A look at all jobs may cost this share of the loop's time.
    private static var fullLookShare: Int { 20 }

    let configuration: FanoutConfiguration
    let driver: LoopDriver<LoopClock>
    let logger: Logger
    let onPublished: @Sendable (Lane) -> Void
    /// Called after each turn that took all small jobs: those that are left belong to the other loop.
    let onTurnEnd: @Sendable () -> Void
    var connection: KeptConnection
    private var nextFullLook: LoopClock.Instant
    /// The app that each lane's next turn begins after.
    private var lastApps: [Lane: AppID] = [:]

    init(
        _ database: PostgresConfiguration,
        configuration: FanoutConfiguration,
        driver: LoopDriver<LoopClock>,
        logger: Logger,
        onPublished: @escaping @Sendable (Lane) -> Void,
        onTurnEnd: @escaping @Sendable () -> Void
    ) {
        self.configuration = configuration
        self.driver = driver
        self.logger = logger
        self.onPublished = onPublished
        self.onTurnEnd = onTurnEnd
        connection = KeptConnection(database)
        nextFullLook = driver.clock.now
    }

    /// Takes one step in each urgent lane; true if one of them has more.
    mutating func turn() async throws(PostgresError) -> Bool {
        let start = driver.clock.now
        let isFullLook = start >= nextFullLook
        let hasMore: Bool
        do throws(PostgresError) {
            hasMore = try await step(isFullLook: isFullLook)
        } catch {
            try await recover(from: error)
            return false
        }
        if isFullLook && !hasMore {
            let end = driver.clock.now
            let time = start.duration(to: end)
            nextFullLook = end.advanced(by: max(configuration.urgentPoll / 2, time * Self.fullLookShare))
        }
        if !hasMore { onTurnEnd() }
        return hasMore
    }

    private mutating func step(isFullLook: Bool) async throws(PostgresError) -> Bool {
        let statements = FanoutStatements(connection: try await connection.get(), configuration: configuration)
        var hasMore = false
        for lane in [Lane.call, .transactional] {
            let taken = try await statements.fanOutSmallJobs(
                lane,
                since: isFullLook ? nil : Self.youngAge,
                after: lastApps[lane] ?? .none
            )
            lastApps[lane] = taken.lastApp
            guard taken.jobs > 0 else { continue }
            logger.debug(
                "small jobs published",
                [.lane: .text(lane.name), .count: .number(taken.jobs), .batchSize: .number(taken.batches)]
            )
            if taken.batches > 0 { onPublished(lane) }
            if taken.hasMore { hasMore = true }
        }
        return hasMore
    }

    /// What is wrong with one job must not hold up the others: the other loop takes them one by one meanwhile.
    private mutating func recover(from error: PostgresError) async throws(PostgresError) {
        await connection.note(error)
        switch StepFailure(error) {
        case .database:
            throw error
        case .missingPartition:
            let statements = FanoutStatements(connection: try await connection.get(), configuration: configuration)
            try await statements.makePartitions(daysAhead: 7)
            logger.warning("day partitions were missing and have been made")
            driver.wake()
        case .lasting, .passing:
            logger.warning(
                "small jobs failed together, they are taken one by one",
                [.errorCode: .describing(error.code), .errorMessage: .describing(error)]
            )
            onTurnEnd()
            await driver.pause(configuration.restAfterFailure)
        }
    }
}
