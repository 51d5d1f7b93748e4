import Postgres
import PushCore
import Telemetry

/// Takes urgent jobs with few recipients from `available` to ready batches, on a connection of its own, so that no
/// campaign's freeze is ever in front of them.
struct SmallJobLoop<LoopClock: Clock> where LoopClock.Duration == Duration {
    /// How a lane stands.
    private struct LaneState {
        /// The app that the next turn begins after.
        var lastApp = AppID.none
        var singles = SingleTurns()
        /// The last turn did not take all.
        var hasMore = false
        /// After failures: when the lane goes on.
        var restsUntil: LoopClock.Instant?
    }

    let configuration: FanoutConfiguration
    let driver: LoopDriver<LoopClock>
    let logger: Logger
    let onPublished: @Sendable (Lane) -> Void
    /// The lanes that somebody spoke of since it was last called.
    let takeWokenLanes: @Sendable () -> Set<Lane>
    /// Called when a job was left to the other loop.
    let onSetAside: @Sendable () -> Void
    var connection: KeptConnection
    private var looks: LookPlan<LoopClock.Instant>
    private var states: [Lane: LaneState] = [:]

    init(
        _ database: PostgresConfiguration,
        configuration: FanoutConfiguration,
        driver: LoopDriver<LoopClock>,
        logger: Logger,
        onPublished: @escaping @Sendable (Lane) -> Void,
        takeWokenLanes: @escaping @Sendable () -> Set<Lane>,
        onSetAside: @escaping @Sendable () -> Void
    ) {
        self.configuration = configuration
        self.driver = driver
        self.logger = logger
        self.onPublished = onPublished
        self.takeWokenLanes = takeWokenLanes
        self.onSetAside = onSetAside
        connection = KeptConnection(database)
        looks = LookPlan(now: driver.clock.now)
    }

    /// Takes one step in each urgent lane, or only where there is word of jobs; true if one of them has more. What fails
    /// in one lane leaves the other alone.
    mutating func turn() async throws(PostgresError) -> Bool {
        let start = driver.clock.now
        let age = looks.age(at: start)
        let spokenOf = takeWokenLanes()
        let isForAll = age == nil || spokenOf.isEmpty
        var hasMore = false
        for lane in [Lane.call, .transactional] {
            var state = states[lane] ?? LaneState()
            guard isForAll || state.hasMore || spokenOf.contains(lane) else { continue }
            if let end = state.restsUntil, start < end { continue }
            do throws(PostgresError) {
                state.hasMore = try await step(lane, &state, since: age)
            } catch {
                try await connection.pass(error)
                state.hasMore = try await recover(from: error, lane, &state)
            }
            states[lane] = state
            if state.hasMore { hasMore = true }
        }
        if age == nil && !hasMore {
            looks.lookedAtAll(from: start, to: driver.clock.now, interval: configuration.urgentPoll / 2)
        }
        return hasMore
    }

    private func statements() async throws(PostgresError) -> FanoutStatements {
        FanoutStatements(connection: try await connection.get(), configuration: configuration)
    }

    private func step(
        _ lane: Lane,
        _ state: inout LaneState,
        since age: Duration?
    ) async throws(PostgresError) -> Bool {
        state.restsUntil = nil
        guard !state.singles.areDue else { return try await singleStep(lane, &state) }
        let taken = try await statements().fanOutSmallJobs(lane, since: age, after: state.lastApp)
        state.lastApp = taken.lastApp
        note(taken, lane)
        return taken.hasMore && taken.jobs > 0
    }

    /// Takes the next job alone. What it throws is no job's fault.
    private func singleStep(_ lane: Lane, _ state: inout LaneState) async throws(PostgresError) -> Bool {
        let statements = try await statements()
        guard let next = try await statements.nextSmallJob(lane, after: state.lastApp) else {
            state.singles.foundNothing()
            return false
        }
        do throws(PostgresError) {
            let taken = try await statements.fanOutSmallJobs(lane, since: nil, after: state.lastApp, limit: 1)
            state.lastApp = taken.lastApp
            state.singles.succeeded()
            note(taken, lane)
            return true
        } catch {
            guard error.isOfStatement else { throw error }
            if try await cure(error) { return true }
            // Whoever is next is not to wait for it.
            state.lastApp = next.app
            let isSetAside = state.singles.failed(next.job, turns: Int(configuration.smallJobsPerStep))
            if isSetAside {
                try await statements.setAside(next.job)
                onSetAside()
            }
            logger.warning(
                isSetAside
                    ? "a small job failed alone again and again and is left to be frozen by itself"
                    : "a small job failed alone, the others go on",
                [
                    .jobID: .describing(next.job), .appID: .describing(next.app), .lane: .text(lane.name),
                    .errorCode: .describing(error.code), .errorMessage: .describing(error),
                ]
            )
            rest(&state)
            return false
        }
    }

    private func note(_ taken: SmallJobsTurn, _ lane: Lane) {
        guard taken.jobs > 0 else { return }
        logger.debug(
            "small jobs published",
            [.lane: .text(lane.name), .count: .number(taken.jobs), .batchSize: .number(taken.batches)]
        )
        if taken.batches > 0 { onPublished(lane) }
    }

    /// What is wrong with one job must not hold up the others; true if the lane is to go on at once.
    private func recover(
        from error: PostgresError,
        _ lane: Lane,
        _ state: inout LaneState
    ) async throws(PostgresError) -> Bool {
        if try await cure(error) { return true }
        logger.warning(
            "small jobs failed together, they are taken one by one",
            [.lane: .text(lane.name), .errorCode: .describing(error.code), .errorMessage: .describing(error)]
        )
        let isFirst = !state.singles.areDue
        state.singles.manyFailed(turns: Int(configuration.smallJobsPerStep))
        if !isFirst { rest(&state) }
        return isFirst
    }

    /// Makes the day partitions where the error is that they are missing; false where it is not.
    private func cure(_ error: PostgresError) async throws(PostgresError) -> Bool {
        guard StepFailure(error) == .missingPartition, try await statements().makePartitions(daysAhead: 7) > 0 else {
            return false
        }
        logger.warning("day partitions were missing and have been made")
        return true
    }

    /// A lane rests longer with each failure in a row, so that what nobody's job is to blame for is not asked for
    /// without a pause.
    private func rest(_ state: inout LaneState) {
        let backoff = Backoff(
            first: configuration.urgentPoll,
            longest: max(configuration.urgentPoll, configuration.restAfterFailure)
        )
        state.restsUntil = driver.clock.now.advanced(by: backoff.ceiling(afterFailures: state.singles.failuresInRow))
    }
}
