import Postgres
import PushCore
import TestSupport
import Testing

@testable import Scheduler

@Suite struct PromoteTests {
    @Test func `a batch that waited becomes ready with its bits, its attempt and what was in doubt`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            let scheduler = ManualScheduler(fixture)
            // Eight devices of iOS: one batch.
            _ = try await scheduler.publishedJob(devices: 1...20)
            try await scheduler.leaseBatches(sendingTo: 5, done: 3)
            try await scheduler.delayBatches(seconds: -1)
            let before = try await fixture.text(
                "SELECT string_agg(id || encode(done, 'hex'), ' ' ORDER BY id) FROM peal.batch_delayed"
            )
            let promoted = try await scheduler.statements.promoteDelayed(slot: 0)
            #expect(promoted.lanes == [.transactional])
            #expect(promoted.taken == 2)
            let after = try await fixture.text(
                "SELECT string_agg(id || encode(done, 'hex'), ' ' ORDER BY id) FROM peal.batch"
            )
            #expect(before == after)
            #expect(
                try await fixture.number("SELECT count(*) FROM peal.batch WHERE attempt = 2 AND sending_to = 5") == 2
            )
            #expect(
                try await fixture.number(
                    "SELECT count(*) FROM peal.batch WHERE lease_token IS NULL AND lease_until <= now() AND lease_no = 0"
                ) == 2
            )
            try await fixture.expectAccounts()
        }
    }

    @Test func `what is not due stays, and a step takes no more than its limit`() async throws {
        try await withSendFixture(devices: 300) { fixture in
            var configuration = SchedulerConfiguration()
            configuration.delayedPerStep = 2
            let scheduler = ManualScheduler(fixture)
            let statements = SchedulerStatements(connection: fixture.connection, configuration: configuration)
            for first in [1, 6, 11] { _ = try await scheduler.publishedJob(devices: first...first) }
            try await scheduler.delayBatches(seconds: -1)
            _ = try await scheduler.publishedJob(devices: 16...16)
            try await fixture.query("UPDATE peal.batch_delayed SET due_at = due_at - id * interval '1 second'")
            try await scheduler.delayBatches(seconds: 60)
            #expect(try await statements.promoteDelayed(slot: 0).taken == 2)
            #expect(try await statements.promoteDelayed(slot: 0).taken == 1)
            #expect(try await statements.promoteDelayed(slot: 0).taken == 0)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch_delayed") == 1)
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 5: what waited beyond its expiry is expired, what may have been sent is unknown`() async throws
    {
        try await withSendFixture(devices: 20) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.publishedJob(devices: 1...20)
            try await scheduler.leaseBatches(sendingTo: 5, done: 3)
            try await scheduler.delayBatches(seconds: -1)
            try await fixture.expire(job)
            #expect(try await scheduler.statements.promoteDelayed(slot: 0).lanes.isEmpty)
            try await fixture.expectAccounts()
            #expect(try await fixture.results(job, "accepted") == 6)
            #expect(try await fixture.results(job, "unknown") == 4)
            #expect(try await fixture.results(job, "expired") == 10)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch_delayed") == 0)
        }
    }

    @Test func `promise 6: what is due while its job is paused waits for the resumption`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.publishedJob(devices: 1...20)
            try await fixture.query("SELECT peal.pause_job($1)", [.job(job)])
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch") == 0)
            // A worker that had it in hand sets it aside with a due time of its own.
            try await fixture.query(
                "UPDATE peal.batch_delayed SET due_at = now() - interval '1 second', resume_at = NULL"
            )
            #expect(try await scheduler.statements.promoteDelayed(slot: 0).lanes.isEmpty)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch_delayed WHERE due_at = 'infinity'") == 2)
            try await fixture.expectAccounts()
            try await fixture.query("SELECT peal.resume_job($1)", [.job(job)])
            #expect(try await scheduler.statements.promoteDelayed(slot: 0).taken == 2)
            #expect(try await fixture.number("SELECT sum(size) FROM peal.batch") == 20)
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 2: several schedulers promote each batch once`() async throws {
        try await withSendFixture(devices: 400) { fixture in
            let scheduler = ManualScheduler(fixture)
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content)
                SELECT 'shop', jsonb_build_object('device_ids', jsonb_build_array(n)), '{"title": "x"}'
                FROM generate_series(1, 400) AS n
                """
            )
            try await fixture.query("SELECT peal.fan_out_small('transactional', 1000, NULL)")
            try await scheduler.delayBatches(seconds: -1)
            let taken = try await withThrowingTaskGroup(of: Int32.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        let statements = SchedulerStatements(
                            connection: try await fixture.database.connect(),
                            configuration: SchedulerConfiguration()
                        )
                        var total: Int32 = 0
                        while true {
                            let taken = try await statements.promoteDelayed(slot: 0).taken
                            guard taken > 0 else { return total }
                            total += taken
                        }
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch") == Int64(taken))
            #expect(
                try await fixture.number("SELECT count(*) + (SELECT count(*) FROM peal.batch) FROM peal.batch_delayed")
                    == 400
            )
            try await fixture.expectAccounts()
        }
    }
}
