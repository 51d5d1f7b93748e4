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
    private var held: [Held] = []

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
        connection = KeptConnection(database)
    }

    /// Takes one step of each job in hand; true while there are any.
    mutating func turn() async throws(PostgresError) -> Bool {
        do throws(PostgresError) {
            let statements = FanoutStatements(connection: try await connection.get(), configuration: configuration)
            try await claim(statements)
            var ended = Ended()
            for position in held.indices where !driver.isStopped {
                try await step(position, statements, &ended)
            }
            try await release(ended.rested, rest: configuration.restWhenFull, statements)
            try await release(ended.failed, rest: configuration.restAfterFailure, statements)
            // A job that was paused must not wait for our lease when it is resumed.
            try await release(ended.givenUp, rest: .zero, statements)
            let gone = ended.all
            held.removeAll { gone.contains($0.job.id) }
            return !held.isEmpty
        } catch {
            // What is in hand stays in hand: each step is repeatable, and the lease token decides.
            await connection.note(error)
            throw error
        }
    }

    /// Gives up everything in hand, so that another process goes on at once.
    mutating func letGoOfAll() async throws(PostgresError) {
        if !held.isEmpty {
            let statements = FanoutStatements(connection: try await connection.get(), configuration: configuration)
            try await release(held.map(\.job.id), rest: .zero, statements)
            held.removeAll()
        }
        await connection.close()
    }

    private mutating func claim(_ statements: FanoutStatements) async throws(PostgresError) {
        let room = configuration.jobsInHand - held.count
        guard room > 0, !driver.isStopped else { return }
        // A job comes again only when its lease ran out under us, which the new claim cures.
        for job in try await statements.claimJobs(token, upTo: room)
        where !held.contains(where: { $0.job.id == job.id }) {
            let progress = JobProgress(isFrozen: job.isFrozen)
            held.append(Held(job: job, progress: progress, action: progress.begin()))
            logger.debug("job claimed", [.jobID: .describing(job.id), .appID: .describing(job.appID)])
        }
        held.sort { $0.job.lane.rawValue < $1.job.lane.rawValue }
    }

    private mutating func step(
        _ position: Int,
        _ statements: FanoutStatements,
        _ ended: inout Ended
    ) async throws(PostgresError) {
        let job = held[position].job
        do throws(PostgresError) {
            switch held[position].action {
            case .freeze:
                let result = try await statements.freeze(job.id, token)
                held[position].action = held[position].progress.froze(result.state)
                logFreeze(job, result.state, added: result.added)
            case .publish:
                let result = try await statements.publish(job.id, token)
                held[position].action = held[position].progress.published(result.state)
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
            try await handle(error, of: job, while: held[position].action, statements, &ended)
            return
        }
        switch held[position].action {
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
            try await statements.makePartitions(daysAhead: 7)
            logger.warning("day partitions were missing and have been made", metadata)
        case .lasting where action == .freeze:
            let wasHeld = try await statements.discard(job.id, token, reason: error.message)
            ended.letGo.append(job.id)
            if wasHeld { logger.warning("job discarded: its audience cannot be frozen", metadata) }
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
        let metadata: LogMetadata = [
            .jobID: .describing(job.id), .appID: .describing(job.appID), .count: .number(added),
        ]
        switch state {
        case .more: logger.debug("part of an audience frozen", metadata)
        case .frozen: logger.info("audience frozen", metadata)
        case .lost: logger.debug("freeze stopped: the job was paused, cancelled or taken over", metadata)
        }
    }
}
