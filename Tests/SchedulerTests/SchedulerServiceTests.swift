import Postgres
import PushCore
import Synchronization
import Telemetry
import TestSupport
import Testing

@testable import Scheduler

@Suite struct SchedulerServiceTests {
    /// Which lanes were told of.
    private final class Told: Sendable {
        private let lanes = Mutex<Set<Lane>>([])
        func note(_ lane: Lane) { lanes.withLock { _ = $0.insert(lane) } }
        var all: Set<Lane> { lanes.withLock { $0 } }
    }

    @Test func `two schedulers keep everything moving, and one keeps the partitions`() async throws {
        try await withSendFixture(devices: 60) { fixture in
            let (staged, ready) = (Told(), Told())
            let services = (0..<2).map { _ in
                SchedulerService(
                    database: fixture.database.configuration(logger: Logger(level: .error)),
                    logger: Logger(level: .error),
                    clock: ContinuousClock(),
                    onStaged: { staged.note($0) },
                    onReady: { ready.note($0) }
                )
            }
            let scheduler = ManualScheduler(fixture)
            let waiting = try await scheduler.publishedJob(devices: 1...20)
            try await scheduler.delayBatches(seconds: 0)
            let cancelled = try await scheduler.publishedJob(devices: 21...40)
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(cancelled)])
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content, send_at)
                VALUES ('shop', '{"device_ids": [1]}', '{"title": "x"}', now() + interval '100 milliseconds')
                """
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                for service in services { group.addTask { await service.run() } }
                defer { for service in services { service.stop() } }
                try await eventually("the waiting batches are ready") {
                    try await fixture.number(
                        "SELECT coalesce(sum(size), 0) FROM peal.batch WHERE job_id = $1",
                        [.job(waiting)]
                    ) == 20
                }
                try await eventually("the cancelled job is at its end") {
                    try await fixture.number(
                        "SELECT count(*) FROM peal.job WHERE id = $1 AND completed_at IS NOT NULL",
                        [.job(cancelled)]
                    ) == 1
                }
                try await eventually("the scheduled job is available") {
                    try await fixture.number("SELECT count(*) FROM peal.job WHERE state = 'available'") == 1
                }
                try await eventually("the counts are rolled up") {
                    try await fixture.number("SELECT count(*) FROM peal.stat_delta") == 0
                }
                try await eventually("one of them has the maintenance role") {
                    try await fixture.number("SELECT count(*) FROM peal.role_lease WHERE lease_until > now()") == 1
                }
            }
            try await fixture.expectAccounts()
            #expect(staged.all == [.transactional])
            #expect(ready.all == [.transactional])
            // Both have stopped: nobody has to wait for the role.
            #expect(try await fixture.number("SELECT count(*) FROM peal.role_lease WHERE lease_until > now()") == 0)
        }
    }

    @Test func `a duty that fails does not stop the others, and is taken up again`() async throws {
        try await withSendFixture(devices: 60) { fixture in
            let scheduler = ManualScheduler(fixture)
            let waiting = try await scheduler.publishedJob(devices: 1...20)
            try await scheduler.delayBatches(seconds: 0)
            let cancelled = try await scheduler.publishedJob(devices: 21...40)
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(cancelled)])
            _ = try await scheduler.publishedJob(devices: [41, 77])
            // What is first in each of the two loops fails whenever it has something to do.
            try await fixture.query(
                """
                CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION USING ERRCODE = '57014', MESSAGE = 'out of time'; END $$
                """
            )
            try await fixture.query(
                """
                CREATE TRIGGER fail_stage BEFORE UPDATE ON peal.job FOR EACH ROW
                WHEN (OLD.state = 'scheduled') EXECUTE FUNCTION fail()
                """
            )
            try await fixture.query(
                """
                CREATE TRIGGER fail_sweep BEFORE DELETE ON peal.batch_transactional FOR EACH ROW EXECUTE FUNCTION fail()
                """
            )
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content, send_at)
                VALUES ('shop', '{"device_ids": [1]}', '{"title": "x"}', now() + interval '1 millisecond')
                """
            )
            let service = SchedulerService(
                database: fixture.database.configuration(logger: Logger(level: .error)),
                logger: Logger(level: .error),
                clock: ContinuousClock(),
                onStaged: { _ in },
                onReady: { _ in }
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await service.run() }
                defer { service.stop() }
                try await eventually("the waiting batches are ready") {
                    try await fixture.number(
                        "SELECT coalesce(sum(size), 0) FROM peal.batch WHERE job_id = $1",
                        [.job(waiting)]
                    ) == 20
                }
                try await eventually("the counts are rolled up, and the maintenance role is held") {
                    try await fixture.number(
                        """
                        SELECT (SELECT count(*) FROM peal.role_lease WHERE lease_until > now())
                            - (SELECT count(*) FROM peal.stat_delta)
                        """
                    ) == 1
                }
                try await fixture.query("DROP FUNCTION fail() CASCADE")
                try await eventually("the cancelled job is at its end, and the scheduled one available") {
                    try await fixture.number(
                        "SELECT count(*) FROM peal.job WHERE state = 'cancelled' AND completed_at IS NOT NULL OR state = 'available'"
                    ) == 2
                }
            }
            try await fixture.expectAccounts()
        }
    }
}
