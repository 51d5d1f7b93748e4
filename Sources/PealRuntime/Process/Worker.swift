import Delivery
import Fanout
import OpenSSL
import Postgres
import PushCore
import Scheduler
import SQLText
import Telemetry

/// Runs the roles of one process side by side until it is told to stop, and joins them: what one makes ready wakes the
/// next. Across processes the database's notifications do the same, and polling does without both.
package final class Worker: Sendable {
    private let configuration: WorkerConfiguration
    private let scheduler: SchedulerService<ContinuousClock>?
    private let fanout: FanoutService<ContinuousClock>?
    private let delivery: DeliveryService?

    /// Puts the roles together. Nothing runs yet.
    package init(_ configuration: WorkerConfiguration) throws {
        self.configuration = configuration
        let roles = configuration.roles
        let delivery: DeliveryService? =
            roles.contains(.delivery) ? try DeliveryService(Self.deliveryConfiguration(configuration)) : nil
        let fanout: FanoutService<ContinuousClock>? =
            roles.contains(.fanout)
            ? FanoutService(
                database: configuration.database,
                logger: configuration.logger,
                clock: ContinuousClock(),
                onPublished: { lane in delivery?.wake(lane) }
            ) : nil
        scheduler =
            roles.contains(.scheduler)
            ? SchedulerService(
                database: configuration.database,
                configuration: Self.schedulerConfiguration(configuration),
                logger: configuration.logger,
                clock: ContinuousClock(),
                onStaged: { lane in fanout?.wake(lane) },
                onReady: { lane in delivery?.wake(lane) }
            ) : nil
        self.fanout = fanout
        self.delivery = delivery
    }

    private static func schedulerConfiguration(_ configuration: WorkerConfiguration) -> SchedulerConfiguration {
        var scheduler = SchedulerConfiguration()
        if let days = configuration.retentionDays { scheduler.keepDays = days }
        return scheduler
    }

    /// Works until `stop` or `stopNow`. Throws before anything begins when the schema is not one that this binary knows, and
    /// when delivery is a role and the master key opens none of the credentials that there are.
    @concurrent
    package func run() async throws {
        let connection = try await PostgresConnection.connect(configuration.database)
        try await Database.migrator(logger: configuration.logger).schemaRangeCheck(connection)
        if let masterKey = configuration.masterKey, configuration.roles.contains(.delivery) {
            try await checkCredentials(Credentials(connection), masterKey)
        }
        await connection.close()
        configuration.logger.info(
            "worker started",
            [.roleName: .text(configuration.roles.map(\.rawValue).sorted().joined(separator: ","))]
        )
        let listening = Task { await listen() }
        await withDiscardingTaskGroup { [scheduler, fanout, delivery] group in
            group.addTask { await scheduler?.run() }
            group.addTask { await fanout?.run() }
            group.addTask { await delivery?.run() }
        }
        listening.cancel()
        await listening.value
    }

    /// A wrong master key is said at once, not at the first message. Where others open, it ends nothing.
    private func checkCredentials(_ credentials: Credentials, _ masterKey: SealingKey) async throws {
        if !configuration.beginsWithForeignKey { try await credentials.requireKey(masterKey) }
        let failures = try await credentials.openFailures(slug: nil, sealingKey: masterKey)
        guard let first = failures.first else { return }
        configuration.logger.warning(
            "Credentials do not open with this master key, and their messages wait",
            [
                .count: .number(failures.count), .credentialID: .number(Int(first.id)),
                .errorMessage: .text(
                    "\(first.reason). Set PEAL_MASTER_KEY or PEAL_MASTER_KEY_FILE to the key that sealed them, "
                        + "or add them again"
                ),
            ]
        )
    }

    /// Claims nothing more, waits up to the drain limit for what is on the wire, writes its results, gives up leases.
    package func stop() async {
        scheduler?.stop()
        fanout?.stop()
        await delivery?.stop(within: configuration.drainLimit)
    }

    /// Stops without waiting for answers. What is settled is still written, and leases are given up.
    package func stopNow() async {
        scheduler?.stop()
        fanout?.stop()
        await delivery?.stopNow()
    }

    /// Wakes whom a notification concerns, until cancelled.
    private func listen() async {
        let listener = PostgresListener(
            configuration.directDatabase,
            channels: ["peal_small_job", "peal_job", "peal_batch", "peal_control"],
            healthPing: SQLText.healthPing,
            readProcessID: SQLText.listenerReadProcessID
        )
        // Whoever misses an event that did not fit finds its work by polling.
        let (events, continuation) = AsyncStream.makeStream(
            of: PostgresListener.Event.self,
            bufferingPolicy: .bufferingNewest(1024)
        )
        let heeding = Task {
            for await event in events { await heed(event) }
        }
        await listener.run { continuation.yield($0) }
        continuation.finish()
        await heeding.value
    }

    private func heed(_ event: PostgresListener.Event) async {
        switch event {
        case .listening:
            wakeAll()
            await delivery?.checkControl()
        case .notification(let notification):
            let lane = Lane(name: notification.payload)
            switch notification.channel {
            case "peal_small_job": fanout?.wakeForSmallJobs(in: lane ?? .transactional)
            case "peal_job": fanout?.wake(lane ?? .campaign)
            case "peal_batch": delivery?.wake(lane ?? .campaign)
            default:
                scheduler?.wake()
                await delivery?.checkControl()
            }
        // Told in the log by the listener; polling goes on.
        case .lost: break
        }
    }

    private func wakeAll() {
        scheduler?.wake()
        for lane in Lane.allCases {
            fanout?.wake(lane)
            delivery?.wake(lane)
        }
    }

    private static func deliveryConfiguration(_ configuration: WorkerConfiguration) -> DeliveryConfiguration {
        var delivery = DeliveryConfiguration(
            database: configuration.database,
            masterKey: configuration.masterKey,
            caFile: configuration.caFile,
            logger: configuration.logger
        )
        delivery.lanes = configuration.lanes
        return delivery
    }
}
