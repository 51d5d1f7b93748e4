import Postgres
import PushCore
import TestSupport
import Testing

@testable import Fanout

@Suite struct PublishTests {
    /// A job of `shop` whose audience is frozen, held by the fan-out.
    private func frozenJob(
        _ fixture: SendFixture,
        _ fanout: ManualFanout,
        app: String = "shop",
        lane: Lane = .campaign
    ) async throws -> JobID {
        let job = try await fixture.insertJob(audience: #"{"all": true}"#, app: app, lane: lane)
        try await fanout.claim()
        _ = try await fanout.freezeAll(job)
        return job
    }

    private func batches(_ fixture: SendFixture) async throws -> Int64 {
        try await fixture.number("SELECT count(*) FROM peal.batch")
    }

    @Test func `promise 1: batches and cursor move together, and the window bounds what is ready`() async throws {
        try await withSendFixture(devices: 12_000) { fixture in
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 1_000, batchesAhead: 4)
            let job = try await frozenJob(fixture, fanout)
            // Steps of 1,000 devices give pages of about 595, 395 and 10: a window of four mean pages.
            #expect(try await fanout.publish(job) == .published)
            try await fixture.expectAccounts()
            let ready = try await fixture.number("SELECT sum(size) FROM peal.batch")
            let mean = try await fixture.number("SELECT (audience_count + page_count - 1) / page_count FROM peal.job")
            #expect(ready <= 4 * mean && ready > 2 * mean)
            #expect(try await batches(fixture) == fixture.number("SELECT published_pages FROM peal.job"))
            #expect(try await fanout.publish(job) == .full)
            // Whoever settles makes room; the row of a batch in hand may still be there.
            try await settle(fixture, upTo: 400)
            #expect(try await fanout.publish(job) == .published)
            try await fixture.expectAccounts()
        }
    }

    /// Gives recipients of ready batches the outcome accepted: whole batches, until at least so many are settled.
    private func settle(_ fixture: SendFixture, upTo count: Int) async throws {
        try await fixture.query(
            """
            WITH picked AS (
                SELECT b.* FROM (SELECT b.*, sum(size) OVER (ORDER BY vt, id) - size AS before FROM peal.batch AS b) AS b
                WHERE before < $1
            ), gone AS (
                DELETE FROM peal.batch AS b USING picked AS p WHERE b.id = p.id RETURNING b.*
            ), recorded AS (
                INSERT INTO peal.result (job_id, device_id, route, outcome, attempt)
                SELECT g.job_id, r, g.route, 1, 1 FROM gone AS g
                JOIN peal.audience_page AS p ON p.job_id = g.job_id AND p.page_no = g.page_no
                CROSS JOIN unnest(p.ids[g.page_offset + 1:g.page_offset + g.size]) AS r
            )
            INSERT INTO peal.stat_delta SELECT job_id, 1, '', sum(size) FROM gone GROUP BY job_id
            """,
            [.int64(Int64(count))]
        )
    }

    @Test func `a window drains and refills until every page is published`() async throws {
        try await withSendFixture(devices: 12_000) { fixture in
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 1_000, batchesAhead: 4)
            let job = try await frozenJob(fixture, fanout)
            var rounds = 0
            while try await fanout.publish(job) != .done {
                try await settle(fixture, upTo: 100_000)
                try await fixture.expectAccounts()
                rounds += 1
                try #require(rounds < 100)
            }
            #expect(rounds > 5)
            try await settle(fixture, upTo: 100_000)
            try await fixture.expectAccounts()
            #expect(try await fixture.results(job, "accepted") == 12_000)
            #expect(try await fixture.number("SELECT count(DISTINCT device_id) FROM peal.result") == 12_000)
        }
    }

    @Test func `recipients that wait for their retry take no room`() async throws {
        try await withSendFixture(devices: 4_000) { fixture in
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 500, batchesAhead: 3)
            let job = try await frozenJob(fixture, fanout)
            #expect(try await fanout.publish(job) == .published)
            #expect(try await fanout.publish(job) == .full)
            try await fixture.query(
                """
                WITH gone AS (DELETE FROM peal.batch RETURNING *)
                INSERT INTO peal.batch_delayed
                    (slot, due_at, lane, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done)
                SELECT slot, now() + interval '1 hour', lane, app_id, job_id, route, page_no, page_offset, size, 2,
                    expires_at, done FROM gone
                """
            )
            try await fixture.expectAccounts()
            #expect(try await fanout.publish(job) == .published)
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 6: nothing is published while paused, after cancel, or after the expiry`() async throws {
        try await withSendFixture(devices: 2_000) { fixture in
            let fanout = ManualFanout(fixture.connection)
            let job = try await frozenJob(fixture, fanout)
            try await fixture.query("SELECT peal.pause_job($1)", [.job(job)])
            #expect(try await fanout.publish(job) == .lost)
            #expect(try await fanout.claim().isEmpty)
            try await fixture.query("SELECT peal.resume_job($1)", [.job(job)])
            let expired = try await frozenJob(fixture, fanout)
            try await fixture.expire(expired)
            #expect(try await fanout.publish(expired) == .expired)
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)])
            #expect(try await fanout.publish(job) == .lost)
            #expect(try await batches(fixture) == 0)
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 9: apps share a lane by their weights, whoever came first`() async throws {
        try await withSendFixture(devices: 20_000) { fixture in
            try await fixture.query("UPDATE peal.app SET weight = 300 WHERE slug = 'talk'")
            try await fixture.addDevices(20_000, app: "talk")
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 1_000)
            let first = try await frozenJob(fixture, fanout)
            _ = try await fanout.publish(first)
            let second = try await frozenJob(fixture, fanout, app: "talk")
            _ = try await fanout.publish(second)
            let share = try await fixture.number(
                """
                SELECT round(100 * sum(b.size) FILTER (WHERE a.slug = 'talk') / sum(b.size))
                FROM (SELECT * FROM peal.batch ORDER BY vt, id LIMIT 60) AS b JOIN peal.app AS a ON a.id = b.app_id
                """
            )
            #expect(70...80 ~= share)
        }
    }

    @Test func `an app that was idle is lined up with the lane's clock`() async throws {
        try await withSendFixture(devices: 100) { fixture in
            try await fixture.query("UPDATE peal.lane_clock SET vt = 5000 WHERE lane = 3")
            let fanout = ManualFanout(fixture.connection)
            let job = try await frozenJob(fixture, fanout)
            #expect(try await fanout.publish(job) == .done)
            #expect(try await fixture.number("SELECT min(vt) FROM peal.batch") == 5_000)
            // 100 recipients of an app with weight 100: a stretch of 1,000.
            #expect(try await fixture.number("SELECT last_vt FROM peal.app_lane") == 6_000)
        }
    }

    @Test func `case 147: jobs take turns, none is passed over for ever`() async throws {
        try await withSendFixture(devices: 100) { fixture in
            var jobs: [JobID] = []
            for _ in 0..<3 { jobs.append(try await fixture.insertJob(audience: #"{"all": true}"#)) }
            let fanout = ManualFanout(fixture.connection)
            let none = JobRoom(limit: 0)
            let first = try await fanout.statements.claimJobs(
                fanout.token,
                urgent: none,
                campaigns: JobRoom(limit: 1),
                since: nil
            )
            #expect(first.map(\.id) == [jobs[0]])
            try await fanout.statements.releaseJobs([jobs[0]], fanout.token, rest: .zero)
            let rest = try await fanout.statements.claimJobs(
                fanout.token,
                urgent: none,
                campaigns: JobRoom(limit: 2),
                since: nil
            )
            #expect(Set(rest.map(\.id)) == [jobs[1], jobs[2]])
        }
    }

    @Test func `promise 9: fifty campaigns of one app share its weight beside one of another`() async throws {
        try await withSendFixture(devices: 2_000) { fixture in
            try await fixture.addDevices(20_000, app: "talk")
            var many: [JobID] = []
            for _ in 0..<50 { many.append(try await fixture.insertJob(audience: #"{"all": true}"#)) }
            let one = try await fixture.insertJob(audience: #"{"all": true}"#, app: "talk")
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 1_000)
            // The first claim takes it although fifty came before, and leaves room for whoever comes next.
            let first = try await fanout.statements.claimJobs(
                fanout.token,
                urgent: JobRoom(limit: 0),
                campaigns: JobRoom(limit: 16),
                since: nil
            )
            #expect(first.map(\.id).contains(one))
            #expect(first.count == 7)
            try await fanout.claim()
            for job in many + [one] { _ = try await fanout.freezeAll(job) }
            for job in many + [one] { _ = try await fanout.publish(job) }
            let share = try await fixture.number(
                """
                SELECT round(100 * sum(b.size) FILTER (WHERE a.slug = 'talk') / sum(b.size))
                FROM (SELECT * FROM peal.batch ORDER BY vt, id LIMIT 30) AS b JOIN peal.app AS a ON a.id = b.app_id
                """
            )
            #expect(45...55 ~= share)
        }
    }

    @Test
    func `a look at the jobs of late meets those that are new, due, released or resumed, a full one the others too`()
        async throws
    {
        try await withSendFixture(devices: 10) { fixture in
            func claim(since age: Duration?) async throws -> Set<JobID> {
                let statements = FanoutStatements(connection: fixture.connection, configuration: FanoutConfiguration())
                let room = JobRoom(limit: 100)
                let token = LeaseToken(UUIDValue.random())
                let jobs = try await statements.claimJobs(token, urgent: room, campaigns: room, since: age)
                try await statements.releaseJobs(jobs.map(\.id), token, rest: .zero)
                return Set(jobs.map(\.id))
            }
            let new = try await fixture.insertJob(audience: #"{"all": true}"#)
            let old = try await fixture.insertJob(audience: #"{"all": true}"#)
            let resumed = try await fixture.insertJob(audience: #"{"all": true}"#)
            let scheduled = JobID(
                try await fixture.query(
                    """
                    INSERT INTO peal.job (app, audience, content, send_at)
                    VALUES ('shop', '{"all": true}', '{"title": "x"}', now() + interval '1 hour') RETURNING id
                    """
                ).uuid(0, 0)
            )
            try await fixture.query(
                "UPDATE peal.job SET lease_until = now() - interval '1 minute' WHERE id IN ($1, $2)",
                [.job(old), .job(resumed)]
            )
            #expect(try await claim(since: .seconds(10)) == [new])
            try await fixture.query("SELECT peal.pause_job($1), peal.resume_job($1)", [.job(resumed)])
            // Its hour is over.
            try await fixture.query(
                """
                UPDATE peal.job SET state = 'available', send_at = send_at - interval '1 hour',
                    lease_until = lease_until - interval '1 hour'
                WHERE id = $1
                """,
                [.job(scheduled)]
            )
            #expect(try await claim(since: .seconds(10)) == [new, resumed, scheduled])
            #expect(try await claim(since: nil) == [new, resumed, scheduled, old])
            // What was released just now is young again.
            #expect(try await claim(since: .seconds(10)) == [new, resumed, scheduled, old])
        }
    }
}
