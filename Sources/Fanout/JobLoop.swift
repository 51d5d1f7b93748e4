import Postgres
import PushCore
import Telemetry

/// Claims jobs, and freezes and publishes them in turns, one step each, urgent ones first.
struct JobLoop<LoopClock: Clock> where LoopClock.Duration == Duration {
    /// A job in hand and what is to be done with it.
    private struct Held {
        let job: ClaimedJob
        var progress: JobProgress
        var action: JobProgress.Action
    }

    /// What became of the steps of one turn.
    private struct Ended {
        var rested: [JobID] = []
        var failed: [JobID] = []
        var givenUp: [JobID] = []
        var letGo: [JobID] = []

        var all: Set<JobID> { Set(rested).union(failed).union(givenUp).union(letGo) }
    }

    let configuration: FanoutConfiguration
    let driver: LoopDriver<LoopClock>
    let logger: Logger
    let onPublished: @Sendable (Lane) -> Void
    var connection: KeptConnection
    /// One fencing token for all that this loop ever holds: new with each start of a process.
    private let token = LeaseToken(UUIDValue.random())
    private var urgent: [Held] = []
    private var campaigns: [Held] = []
    private var shares: JobShares
    private var looks: LookPlan<LoopClock.Instant>

    init(
        _ database: PostgresConfiguration,
        configuration: FanoutConfiguration,
        driver: LoopDriver<LoopClock>,
        logger: Logger,
        onPublished: @escaping @Sendable (Lane) -> Void
    ) {
        self.configuration = configuration
        self.driver = driver
        self.logger = logger
        self.onPublished = onPublished
        shares = JobShares(places: configuration.jobsInHand)
        looks = LookPlan(now: driver.clock.now)
        connection = KeptConnection(database)
    }

    /// Takes one step of each urgent job in hand and of one campaign; true while there are any.
    ///
    /// The apps take turns, and in an app its campaigns.
    ///
    /// So an urgent job waits for one step of a campaign at most.
    mutating func turn() async throws(PostgresError) -> Bool {
        do throws(PostgresError) {
            let statements = FanoutStatements(connection: try await connection.get(), configuration: configuration)
            try await claim(statements)
            var ended = Ended()
            for position in urgent.indices {
                try await step(&urgent[position], statements, &ended)
            }
            if !campaigns.isEmpty {
                let next = shares.next(among: campaigns.map(\.job.appID))
                campaigns.append(campaigns.remove(at: next))
                try await step(&campaigns[campaigns.count - 1], statements, &ended)
            }
            try await release(ended.rested, rest: configuration.restWhenFull, statements)
            try await release(ended.failed, rest: configuration.restAfterFailure, statements)
            // A job that was paused must not wait for our lease when it is resumed.
            try await release(ended.givenUp, rest: .zero, statements)
            let gone = ended.all
            urgent.removeAll { gone.contains($0.job.id) }
            campaigns.removeAll { gone.contains($0.job.id) }
            return !urgent.isEmpty || !campaigns.isEmpty
        } catch {
            // What is in hand stays in hand: each step is repeatable, and the lease token decides.
            await connection.note(error)
            throw error
        }
    }

    /// Gives up everything in hand, so that another process goes on at once.
    mutating func letGoOfAll() async throws(PostgresError) {
        if !urgent.isEmpty || !campaigns.isEmpty {
            let statements = FanoutStatements(connection: try await connection.get(), configuration: configuration)
            try await release((urgent + campaigns).map(\.job.id), rest: .zero, statements)
            urgent.removeAll()
            campaigns.removeAll()
        }
        await connection.close()
    }

    private mutating func claim(_ statements: FanoutStatements) async throws(PostgresError) {
        guard !driver.isStopped else { return }
        let room = (
            urgent: shares.room(beside: urgent.map(\.job.appID), of: .transactional),
            campaigns: shares.room(beside: campaigns.map(\.job.appID), of: .campaign)
        )
        guard room.urgent.limit > 0 || room.campaigns.limit > 0 else { return }
        let start = driver.clock.now
        let age = looks.age(at: start)
        let claimed = try await statements.claimJobs(token, urgent: room.urgent, campaigns: room.campaigns, since: age)
        if age == nil {
            // While some are found there are others behind them, which no look at the last ones meets.
            let interval = claimed.isEmpty ? configuration.campaignPoll / 2 : .zero
            looks.lookedAtAll(from: start, to: driver.clock.now, interval: interval)
        }
        shares.claimed(claimed)
        // A job in hand comes again only when its lease ran out under us, which the new claim cures.
        let known = Set((urgent + campaigns).map(\.job.id))
        for job in claimed where !known.contains(job.id) {
            let progress = JobProgress(isFrozen: job.isFrozen)
            let held = Held(job: job, progress: progress, action: progress.begin())
            if job.lane == .campaign { campaigns.append(held) } else { urgent.append(held) }
            logger.debug("job claimed", [.jobID: .describing(job.id), .appID: .describing(job.appID)])
        }
    }

    private func step(
        _ held: inout Held,
        _ statements: FanoutStatements,
        _ ended: inout Ended
    ) async throws(PostgresError) {
        let job = held.job
        do throws(PostgresError) {
            switch held.action {
            case .freeze:
                let result = try await statements.freeze(job.id, token)
                held.action = held.progress.froze(result.state)
                logFreeze(job, result.state, added: result.added)
            case .publish:
                let result = try await statements.publish(job.id, token)
                held.action = held.progress.published(result.state)
                if result.batches > 0 { onPublished(job.lane) }
                logger.debug(
                    "batches published",
                    [
                        .jobID: .describing(job.id), .count: .number(result.batches),
                        .jobState: .text(result.state.rawValue),
                    ]
                )
            case .rest, .giveUp, .letGo:
                break
            }
        } catch {
            try await handle(error, of: job, while: held.action, statements, &ended)
            return
        }
        switch held.action {
        case .rest: ended.rested.append(job.id)
        case .giveUp: ended.givenUp.append(job.id)
        case .letGo: ended.letGo.append(job.id)
        case .freeze, .publish: break
        }
    }

    private func handle(
        _ error: PostgresError,
        of job: ClaimedJob,
        while action: JobProgress.Action,
        _ statements: FanoutStatements,
        _ ended: inout Ended
    ) async throws(PostgresError) {
        let failure = StepFailure(error)
        let metadata: LogMetadata = [
            .jobID: .describing(job.id), .appID: .describing(job.appID), .errorCode: .describing(error.code),
            .errorMessage: .describing(error),
        ]
        switch failure {
        case .database:
            throw error
        case .missingPartition:
            if try await statements.makePartitions(daysAhead: 7) > 0 {
                logger.warning("day partitions were missing and have been made", metadata)
            } else {
                logger.warning("a step of the fan-out failed, the job rests", metadata)
                ended.failed.append(job.id)
            }
        case .lasting where action == .freeze:
            let wasHeld = try await statements.discard(job.id, token, reason: error.message)
            ended.letGo.append(job.id)
            if wasHeld { logger.warning("job discarded: its audience cannot be frozen", metadata) }
        case .passing where action == .freeze && error.code == .deadline:
            let isGivenUp = try await statements.noteFreezeTimeout(job.id, token)
            logger.warning(
                isGivenUp
                    ? "job discarded: its audience takes too long to be found"
                    : "a step of a freeze ran out of time, the job rests",
                metadata
            )
            if isGivenUp { ended.letGo.append(job.id) } else { ended.failed.append(job.id) }
        case .lasting, .passing:
            logger.warning("a step of the fan-out failed, the job rests", metadata)
            ended.failed.append(job.id)
        }
    }

    private func release(
        _ ids: [JobID],
        rest: Duration,
        _ statements: FanoutStatements
    ) async throws(PostgresError) {
        guard !ids.isEmpty else { return }
        try await statements.releaseJobs(ids, token, rest: rest)
    }

    private func logFreeze(_ job: ClaimedJob, _ state: FreezeState, added: Int64) {
        var metadata: LogMetadata = [.jobID: .describing(job.id), .appID: .describing(job.appID)]
        switch state {
        case .more:
            metadata[.count] = .number(added)
            logger.debug("part of an audience frozen", metadata)
        case .frozen: logger.info("audience frozen", metadata)
        case .lost: logger.debug("freeze stopped: the job was paused, cancelled or taken over", metadata)
        }
    }
}
