package import Postgres
package import PushCore
package import Telemetry

/// Keeps jobs moving: stages what is due, promotes what waited, ends and counts, tidies.
///
/// Leader-free: any number of them share the work through row locks. Two loops with a connection each, so that a long
/// sweep never delays what has become due.
package final class SchedulerService<ServiceClock: Clock>: Sendable where ServiceClock.Duration == Duration {
    private let database: PostgresConfiguration
    private let configuration: SchedulerConfiguration
    private let logger: Logger
    private let onStaged: @Sendable (Lane) -> Void
    private let onReady: @Sendable (Lane) -> Void
    private let due: LoopDriver<ServiceClock>
    private let upkeep: LoopDriver<ServiceClock>

    /// - Parameters:
    ///   - onStaged: called when jobs of a lane have become available: wake the fan-out. Must return at once.
    ///   - onReady: called when batches of a lane have become ready: wake the delivery. Must return at once.
    package init(
        database: PostgresConfiguration,
        configuration: SchedulerConfiguration = SchedulerConfiguration(),
        logger: Logger,
        clock: ServiceClock,
        onStaged: @escaping @Sendable (Lane) -> Void,
        onReady: @escaping @Sendable (Lane) -> Void
    ) {
        self.database = database
        self.configuration = configuration
        self.logger = logger
        self.onStaged = onStaged
        self.onReady = onReady
        due = LoopDriver(poll: configuration.duePoll, clock: clock, logger: logger)
        upkeep = LoopDriver(
            poll: min(configuration.sweepInterval, configuration.rollUpInterval),
            clock: clock,
            logger: logger
        )
    }

    /// Tells that something may have become due or resumed, or that a job was cancelled. Returns at once.
    package func wake() {
        due.wake()
        upkeep.wake()
    }

    /// Ends `run` after the steps that are going on; the maintenance role is given up.
    package func stop() {
        due.stop()
        upkeep.stop()
    }

    /// Works until `stop`. A database that is away is waited for; cancelling the task stops without resigning.
    @concurrent
    package func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.runDue() }
            group.addTask { await self.runUpkeep() }
        }
    }

    @concurrent
    private func runDue() async {
        var loop = DueLoop(
            configuration: configuration,
            logger: logger,
            onStaged: onStaged,
            onReady: onReady,
            clock: due.clock,
            connection: KeptConnection(database)
        )
        await due.run { () throws(PostgresError) in try await loop.turn() }
        await loop.connection.close()
    }

    @concurrent
    private func runUpkeep() async {
        var loop = UpkeepLoop(database, configuration: configuration, logger: logger, clock: upkeep.clock)
        await upkeep.run { () throws(PostgresError) in try await loop.turn() }
        do throws(PostgresError) {
            try await loop.resign()
        } catch {
            logger.warning(
                "the maintenance role was not resigned, it runs out by itself",
                [.errorCode: .describing(error.code), .errorMessage: .describing(error)]
            )
        }
    }
}
