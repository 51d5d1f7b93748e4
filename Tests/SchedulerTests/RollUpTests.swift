import Postgres
import PushCore
import TestSupport
import Testing

@testable import Scheduler

@Suite struct RollUpTests {
    @Test func `promise 1: roll-ups at once count nothing twice and lose nothing`() async throws {
        try await withSendFixture { fixture in
            try await fixture.query(
                """
                INSERT INTO peal.stat_delta (job_id, outcome, reason, n)
                SELECT ('00000000-0000-4000-8000-00000000000' || n % 7)::uuid, 1 + n % 3, 'r' || n % 2, n
                FROM generate_series(1, 10000) AS n
                """
            )
            var configuration = SchedulerConfiguration()
            configuration.countsPerStep = 300
            let settings = configuration
            let total = try await withThrowingTaskGroup(of: Int32.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        let statements = SchedulerStatements(
                            connection: try await fixture.database.connect(),
                            configuration: settings
                        )
                        var total: Int32 = 0
                        while case let taken = try await statements.rollUp().taken, taken > 0 { total += taken }
                        return total
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(total == 10_000)
            #expect(try await fixture.number("SELECT sum(n) FROM peal.job_stat") == 50_005_000)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job_stat") == 42)
            #expect(try await fixture.number("SELECT count(*) FROM peal.stat_delta") == 0)
        }
    }

    @Test func `a job completes with the roll-up of its last outcome, not before`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.publishedJob(devices: 1...20)
            try await scheduler.leaseBatches(sendingTo: 20, done: 7)
            #expect(try await scheduler.statements.rollUp().completed == 0)
            try await fixture.expectAccounts()
            #expect(try await fixture.state(job) == "running")
            try await fixture.query(
                """
                WITH open AS (
                    SELECT b.job_id, b.route, unnest(p.ids[8:]) AS device_id FROM peal.batch AS b
                    JOIN peal.audience_page AS p ON p.job_id = b.job_id AND p.page_no = b.page_no
                ), recorded AS (
                    INSERT INTO peal.result (job_id, device_id, route, outcome, attempt)
                    SELECT job_id, device_id, route, 2, 1 FROM open
                ), counted AS (
                    INSERT INTO peal.stat_delta SELECT job_id, 2, 'BadDeviceToken', count(*) FROM open GROUP BY job_id
                )
                DELETE FROM peal.batch
                """
            )
            try await fixture.expectAccounts()
            #expect(try await scheduler.statements.rollUp().completed == 1)
            #expect(try await fixture.state(job) == "completed")
            try await fixture.expectAccounts()
        }
    }

    @Test func `a job that no roll-up ended is found by the round over all jobs`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            let scheduler = ManualScheduler(fixture)
            _ = try await scheduler.publishedJob(devices: 1...20)
            _ = try await scheduler.publishedJob(devices: 1...2)
            try await fixture.query("DELETE FROM peal.batch WHERE job_id = (SELECT min(id::text)::uuid FROM peal.job)")
            try await fixture.query(
                """
                WITH job AS (SELECT min(id::text)::uuid AS id FROM peal.job), recorded AS (
                    INSERT INTO peal.result (job_id, device_id, route, outcome, attempt)
                    SELECT j.id, unnest(p.ids), p.route, 1, 1 FROM job AS j JOIN peal.audience_page AS p ON p.job_id = j.id
                )
                INSERT INTO peal.job_stat (job_id, outcome, n) SELECT id, 1, 20 FROM job
                """
            )
            try await fixture.expectAccounts()
            #expect(try await scheduler.statements.rollUp().completed == 0)
            var configuration = SchedulerConfiguration()
            configuration.jobsPerStep = 1
            let statements = SchedulerStatements(connection: fixture.connection, configuration: configuration)
            var last: JobID? = JobID(UUIDValue(high: 0, low: 0))
            var completed: Int32 = 0
            var steps = 0
            while let after = last {
                let result = try await statements.completeJobs(after: after)
                completed += result.completed
                last = result.last
                steps += 1
            }
            #expect(completed == 1)
            #expect(steps == 3)
        }
    }
}
