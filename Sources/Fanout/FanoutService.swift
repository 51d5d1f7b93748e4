package import Postgres
package import PushCore
import Synchronization
package import Telemetry

/// Turns jobs into ready batches, in this process, beside as many others as there are.
///
/// Two loops with a connection each: one for small urgent jobs, one that freezes and publishes all others in turns.
package final class FanoutService<ServiceClock: Clock>: Sendable where ServiceClock.Duration == Duration {
    private let database: PostgresConfiguration
    private let configuration: FanoutConfiguration
    private let logger: Logger
    private let onPublished: @Sendable (Lane) -> Void
    private let urgent: LoopDriver<ServiceClock>
    private let campaigns: LoopDriver<ServiceClock>
    /// The urgent lanes that somebody spoke of since their small jobs were looked for.
    private let wokenLanes = Mutex<Set<Lane>>([])

    /// - Parameter onPublished: called when batches of a lane are committed and ready; must return at once.
    package init(
        database: PostgresConfiguration,
        configuration: FanoutConfiguration = FanoutConfiguration(),
        logger: Logger,
        clock: ServiceClock,
        onPublished: @escaping @Sendable (Lane) -> Void
    ) {
        self.database = database
        self.configuration = configuration
        self.logger = logger
        self.onPublished = onPublished
        urgent = LoopDriver(poll: configuration.urgentPoll, clock: clock, logger: logger)
        campaigns = LoopDriver(poll: configuration.campaignPoll, clock: clock, logger: logger)
    }

    /// Tells that a lane has jobs that are due, of whatever size. Callable from anywhere, returns at once.
    package func wake(_ lane: Lane) {
        if lane != .campaign { wakeForSmallJobs(in: lane) }
        campaigns.wake()
    }

    /// Tells that an urgent lane has small jobs that are due. Callable from anywhere, returns at once.
    package func wakeForSmallJobs(in lane: Lane) {
        wokenLanes.withLock { _ = $0.insert(lane) }
        urgent.wake()
    }

    /// Ends `run` after the step that is going on, at most one; leases are given up.
    package func stop() {
        urgent.stop()
        campaigns.stop()
    }

    /// Works until `stop`. A database that is away is waited for; cancelling the task stops without giving up leases.
    @concurrent
    package func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.runSmallJobs() }
            group.addTask { await self.runJobs() }
        }
    }

    @concurrent
    private func runSmallJobs() async {
        var loop = SmallJobLoop(
            database,
            configuration: configuration,
            driver: urgent,
            logger: logger,
            onPublished: onPublished,
            takeWokenLanes: { [self] in wokenLanes.withLock { lanes in exchange(&lanes, with: []) } },
            onSetAside: { [campaigns] in campaigns.wake() }
        )
        await urgent.run { () throws(PostgresError) in try await loop.turn() }
        await loop.connection.close()
    }

    @concurrent
    private func runJobs() async {
        var loop = JobLoop(
            database,
            configuration: configuration,
            driver: campaigns,
            logger: logger,
            onPublished: onPublished
        )
        await campaigns.run { () throws(PostgresError) in try await loop.turn() }
        do throws(PostgresError) {
            try await loop.letGoOfAll()
        } catch {
            logger.warning(
                "job leases were not given up, they run out by themselves",
                [.errorCode: .describing(error.code), .errorMessage: .describing(error)]
            )
        }
    }
}
