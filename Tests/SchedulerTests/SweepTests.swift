import Postgres
import PushCore
import TestSupport
import Testing

@testable import Scheduler

@Suite struct SweepTests {
    @Test(arguments: [(1, 0), (1, 2), (2, 3), (4, 3), (4, 64)])
    func `promise 1: a cancel at any moment counts everyone`(steps: Int, published: Int32) async throws {
        try await withSendFixture(devices: 4_000) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.frozenJob(devicesPerStep: 1_500, steps: steps, published: published)
            let audience = try await fixture.number("SELECT audience_count FROM peal.job")
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)])
            try await fixture.expectAccounts()
            #expect(try await scheduler.sweepAll() == audience)
            #expect(try await fixture.results(job, "cancelled") == audience)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch") == 0)
            #expect(try await fixture.state(job) == "cancelled")
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE completed_at IS NOT NULL") == 1)
            #expect(try await fixture.number("SELECT audience - cancelled FROM peal.job_status") == 0)
        }
    }

    @Test func `a job cancelled before it began completes with an audience of nobody`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)])
            #expect(try await ManualScheduler(fixture).sweepAll() == 0)
            #expect(
                try await fixture.number("SELECT audience FROM peal.job_status WHERE completed_at IS NOT NULL") == 0
            )
        }
    }

    @Test func `a job that expires while it is paused and before it began is discarded, and says why`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            try await fixture.query("SELECT peal.pause_job($1)", [.job(job)])
            try await fixture.expire(job)
            #expect(try await ManualScheduler(fixture).sweepAll() == 0)
            #expect(try await fixture.state(job) == "discarded")
            let failure = try await fixture.text("SELECT failure FROM peal.job WHERE completed_at IS NOT NULL")
            #expect(failure?.contains("expired while it was paused") == true)
            try await fixture.expectAccounts()
        }
    }

    @Test func `a large job is swept in bounded steps`() async throws {
        try await withSendFixture(devices: 12_000) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.frozenJob(devicesPerStep: 2_000, steps: 7, published: 3)
            var configuration = SchedulerConfiguration()
            configuration.recipientsPerSweep = 5_000
            let statements = SchedulerStatements(connection: fixture.connection, configuration: configuration)
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)])
            var steps: [Int64] = []
            while case let settled = try await statements.sweepEndedJobs(), settled > 0 {
                steps.append(settled)
                try await fixture.expectAccounts()
            }
            #expect(steps.count >= 2)
            #expect(steps.allSatisfy { $0 <= 10_000 })
            #expect(steps.reduce(0, +) == 12_000)
        }
    }

    @Test func `promise 6: a batch in hand is left to its worker until the lease is over`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.publishedJob(devices: 1...20)
            try await scheduler.leaseBatches(sendingTo: 4, done: 2)
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)])
            #expect(try await scheduler.sweepAll() == 0)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE completed_at IS NULL") == 1)
            // The worker died: two batches with two accepted each, two on the wire each, the rest never submitted.
            try await fixture.query("UPDATE peal.batch SET lease_until = now() - interval '1 second'")
            #expect(try await scheduler.sweepAll() == 16)
            #expect(try await fixture.results(job, "accepted") == 4)
            #expect(try await fixture.results(job, "unknown") == 4)
            #expect(try await fixture.results(job, "cancelled") == 12)
            #expect(try await fixture.state(job) == "cancelled")
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE completed_at IS NOT NULL") == 1)
        }
    }

    @Test func `batches that wait and those that are held end with their job`() async throws {
        try await withSendFixture(devices: 40) { fixture in
            let scheduler = ManualScheduler(fixture)
            let waiting = try await scheduler.publishedJob(devices: 1...20)
            try await scheduler.delayBatches(seconds: 3_600)
            let held = try await scheduler.publishedJob(devices: 21...40)
            try await fixture.query("SELECT peal.pause_job($1)", [.job(held)])
            for job in [waiting, held] { try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)]) }
            #expect(try await scheduler.sweepAll() == 40)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch_delayed") == 0)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE completed_at IS NULL") == 0)
        }
    }

    @Test func `promise 5: an expired job ends as expired, page by page`() async throws {
        try await withSendFixture(devices: 4_000) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.frozenJob(devicesPerStep: 1_500, steps: 3, published: 2)
            try await fixture.expire(job)
            #expect(try await scheduler.sweepAll() == 4_000)
            #expect(try await fixture.results(job, "expired") == 4_000)
            #expect(try await fixture.state(job) == "completed")
        }
    }

    @Test func `an expired job whose freeze goes on is counted to the last recipient`() async throws {
        try await withSendFixture(devices: 3_000) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.frozenJob(devicesPerStep: 1_000, steps: 2)
            try await fixture.expire(job)
            #expect(try await scheduler.sweepAll() == 2_000)
            #expect(try await fixture.state(job) == "running")
            while try await fixture.text(
                "SELECT f.state FROM peal.job AS j, peal.freeze_step(j.id, j.lease_token, interval '1 hour', 1000) AS f"
            ) == "more" { try await fixture.expectAccounts() }
            #expect(try await scheduler.sweepAll() == 1_000)
            #expect(try await fixture.results(job, "expired") == 3_000)
            #expect(try await fixture.state(job) == "completed")
        }
    }

    @Test func `a job that expires while it is paused ends`() async throws {
        try await withSendFixture(devices: 2_000) { fixture in
            let scheduler = ManualScheduler(fixture)
            let begun = try await scheduler.frozenJob(devicesPerStep: 1_000, steps: 1, published: 2)
            let waiting = try await fixture.insertJob(audience: #"{"all": true}"#)
            for job in [begun, waiting] {
                try await fixture.query("SELECT peal.pause_job($1)", [.job(job)])
                try await fixture.expire(job)
            }
            #expect(try await scheduler.sweepAll() == 1_000)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE completed_at IS NOT NULL") == 2)
            #expect(try await fixture.state(begun) == "completed")
            #expect(try await fixture.state(waiting) == "discarded")
        }
    }

    @Test func `a discarded job ends with its reason`() async throws {
        try await withSendFixture(devices: 2_000) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.frozenJob(devicesPerStep: 1_000, steps: 1)
            try await fixture.query("SELECT peal.discard_job(id, lease_token, 'a segment is gone') FROM peal.job")
            #expect(try await scheduler.sweepAll() == 1_000)
            #expect(try await fixture.state(job) == "discarded")
            #expect(
                try await fixture.text("SELECT failure FROM peal.job_status WHERE completed_at IS NOT NULL")
                    == "a segment is gone"
            )
            #expect(try await fixture.text("SELECT DISTINCT reason FROM peal.recipient_result") == "discarded")
        }
    }

    @Test func `case 124: what completed meanwhile stays completed`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.publishedJob(devices: 1...20)
            try await scheduler.leaseBatches(sendingTo: 20, done: 20)
            try await fixture.query("DELETE FROM peal.batch")
            #expect(try await scheduler.statements.rollUp().completed == 1)
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)])
            try await fixture.expire(job)
            #expect(try await scheduler.sweepAll() == 0)
            #expect(try await fixture.state(job) == "completed")
            #expect(try await fixture.results(job, "accepted") == 20)
        }
    }
}
