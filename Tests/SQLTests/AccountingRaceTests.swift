import Postgres
import PushCore
import TestSupport
import Testing

/// Promise 1 while everybody works at once: fan-outs, schedulers, workers, and people who pause, resume and cancel.
@Suite struct AccountingRaceTests {
    /// What one of them does, in one statement each. `$1` is its lease token.
    private static let acts: [String] = [
        "SELECT peal.claim_jobs('campaign', $1, '1 minute', 2)",
        "SELECT peal.freeze_step(id, $1, '1 minute', 150) FROM peal.job WHERE lease_token = $1 LIMIT 1",
        "SELECT peal.freeze_step(id, $1, '1 minute', 150) FROM peal.job WHERE lease_token = $1 LIMIT 1",
        "SELECT peal.publish_pages(id, $1, '1 minute', 4) FROM peal.job WHERE lease_token = $1 LIMIT 1",
        "SELECT peal.publish_pages(id, $1, '1 minute', 4) FROM peal.job WHERE lease_token = $1 LIMIT 1",
        "SELECT peal.release_jobs($1, array_agg(id), '0') FROM peal.job WHERE lease_token = $1",
        "SELECT peal.fan_out_small('transactional', 3, NULL), $1::uuid",
        "SELECT peal.promote_delayed(0::smallint, 5), $1::uuid",
        "SELECT peal.roll_up(20), $1::uuid",
        "SELECT peal.sweep_ended_jobs(3, 300), $1::uuid",
        "SELECT peal.complete_settled_jobs('00000000-0000-0000-0000-000000000000', 100), $1::uuid",
        settle, settle, settle, delay, lease,
    ]

    /// A worker settles a ready batch: everyone in it is accepted.
    private static let settle = """
        WITH picked AS MATERIALIZED (
            SELECT b.id, b.lane FROM peal.batch AS b WHERE b.lease_until <= now() AND $1::uuid IS NOT NULL
            ORDER BY b.vt LIMIT 1 FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM peal.batch AS b USING picked AS p WHERE b.id = p.id AND b.lane = p.lane RETURNING b.*
        ), sent AS (
            SELECT g.job_id, g.route, g.attempt, r.id FROM gone AS g
            JOIN peal.audience_page AS p ON p.job_id = g.job_id AND p.page_no = g.page_no
            CROSS JOIN unnest(p.ids[g.page_offset + 1:g.page_offset + g.size]) WITH ORDINALITY AS r (id, n)
            WHERE get_bit(g.done, (r.n - 1)::integer) = 0
        ), recorded AS (
            INSERT INTO peal.result (job_id, device_id, route, outcome, attempt)
            SELECT job_id, id, route, 1, attempt FROM sent
        )
        INSERT INTO peal.stat_delta SELECT job_id, 1, '', count(*) FROM sent GROUP BY job_id
        """

    /// A worker settles the first of a batch, and sets the others aside for a retry.
    private static let delay = """
        WITH picked AS MATERIALIZED (
            SELECT b.id, b.lane FROM peal.batch AS b WHERE b.lease_until <= now() AND $1::uuid IS NOT NULL
            ORDER BY b.vt LIMIT 1 FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM peal.batch AS b USING picked AS p WHERE b.id = p.id AND b.lane = p.lane RETURNING b.*
        ), sent AS (
            SELECT g.job_id, g.route, g.attempt, p.ids[g.page_offset + 1] AS id FROM gone AS g
            JOIN peal.audience_page AS p ON p.job_id = g.job_id AND p.page_no = g.page_no
            WHERE get_bit(g.done, 0) = 0
        ), recorded AS (
            INSERT INTO peal.result (job_id, device_id, route, outcome, attempt)
            SELECT job_id, id, route, 2, attempt FROM sent
        ), counted AS (
            INSERT INTO peal.stat_delta SELECT job_id, 2, 'BadDeviceToken', 1 FROM sent
        )
        INSERT INTO peal.batch_delayed (
            slot, due_at, lane, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done, sending_to
        )
        SELECT slot, now(), lane, app_id, job_id, route, page_no, page_offset, size, attempt + 1, expires_at,
            set_bit(done, 0, 1), 0
        FROM gone WHERE size > 1
        """

    /// A worker takes a batch, submits a part of it, and dies: its lease ends at once.
    private static let lease = """
        UPDATE peal.batch AS b SET
            lease_token = $1, lease_no = lease_no + 1, sending_to = greatest(sending_to, size / 2), lease_until = now()
        WHERE (b.id, b.lane) IN (
            SELECT c.id, c.lane FROM peal.batch AS c WHERE c.lease_until <= now() ORDER BY c.vt LIMIT 1
            FOR NO KEY UPDATE SKIP LOCKED
        )
        """

    @Test func `promise 1: the count adds up in every state while everybody works at once`() async throws {
        try await withSendFixture(devices: 1_500) { (fixture) async throws in
            var jobs: [JobID] = []
            for number in 0..<12 {
                let audience =
                    switch number % 4 {
                    case 0: #"{"all": true}"#
                    case 1: #"{"filter": {"tag.vip": false}, "device_ids": [1, 2, 9999]}"#
                    case 2: #"{"external_ids": ["user-1", "user-2", "nobody"]}"#
                    default: #"{"all": true, "channels": ["ios"]}"#
                    }
                jobs.append(try await fixture.insertJob(audience: audience))
            }
            let all = jobs
            try await withThrowingTaskGroup(of: Void.self) { group in
                for seed: UInt64 in 1...4 {
                    group.addTask {
                        try await act(fixture.database, count: 250, seed: seed)
                    }
                }
                group.addTask { try await meddle(fixture.database, with: all, count: 40) }
                group.addTask {
                    for _ in 0..<60 { try await fixture.expectAccounts() }
                }
                try await group.waitForAll()
            }
            try await fixture.expectAccounts()
            try await finish(fixture, all)
        }
    }

    /// Does acts at random on a connection of its own. A deadlock or any other error fails the test.
    private func act(_ database: TestDatabase, count: Int, seed: UInt64) async throws {
        let connection = try await database.connect()
        let token = PostgresParameter.uuid(UUIDValue.random())
        var generator = SeededGenerator(state: seed)
        for _ in 0..<count {
            let text = Self.acts.randomElement(using: &generator) ?? Self.settle
            _ = try await connection.query(SQLStatement(name: "act", text: text), [token])
        }
        await connection.close()
    }

    /// Pauses, resumes, cancels and expires jobs.
    private func meddle(_ database: TestDatabase, with jobs: [JobID], count: Int) async throws {
        let connection = try await database.connect()
        var generator = SeededGenerator(state: 99)
        let acts = [
            "SELECT peal.pause_job($1)", "SELECT peal.resume_job($1)", "SELECT peal.resume_job($1)",
            "SELECT peal.cancel_job($1)",
            "UPDATE peal.job SET expires_at = now() WHERE id = $1 AND completed_at IS NULL",
        ]
        for step in 0..<count {
            // The rarer acts end a job: most of them late.
            let limit = step * 3 < count * 2 ? 3 : acts.count
            let text = acts.prefix(limit).randomElement(using: &generator) ?? acts[0]
            let job = jobs.randomElement(using: &generator) ?? jobs[0]
            _ = try await connection.query(SQLStatement(name: "meddle", text: text), [.job(job)])
        }
        await connection.close()
    }

    /// Brings every job to its end, and looks that nobody was sent to twice and nobody forgotten.
    private func finish(_ fixture: SendFixture, _ jobs: [JobID]) async throws {
        let token = PostgresParameter.uuid(UUIDValue.random())
        try await fixture.query("UPDATE peal.job SET lease_until = '-infinity'")
        for job in jobs { try await fixture.query("SELECT peal.resume_job($1)", [.job(job)]) }
        var rounds = 0
        while try await fixture.number("SELECT count(*) FROM peal.job WHERE completed_at IS NULL") > 0 {
            for act in Self.acts where act != Self.lease && act != Self.delay {
                try await fixture.query(act, [token])
            }
            rounds += 1
            try #require(rounds < 2_000, "the jobs come to no end")
        }
        try await fixture.expectAccounts()
        let twice = try await fixture.number(
            """
            SELECT count(*) FROM (
                SELECT FROM peal.result WHERE device_id > 0 GROUP BY job_id, device_id HAVING count(*) > 1
            ) AS d
            """
        )
        #expect(twice == 0)
        #expect(try await fixture.number("SELECT sum(remaining) FROM peal.job_status") == 0)
        #expect(try await fixture.number("SELECT count(*) FROM peal.batch") == 0)
        #expect(try await fixture.number("SELECT count(*) FROM peal.batch_delayed") == 0)
        let short = try await fixture.number(
            """
            SELECT count(*) FROM peal.job WHERE state = 'completed' AND audience = '{"all": true}'
                AND audience_count <> 1500 AND expires_at > send_at + interval '1 day'
            """
        )
        #expect(short == 0)
    }
}

/// The same numbers for the same seed: the order of acts can be had again, their interleaving cannot.
private struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return (state ^ state >> 29) &* 0xBF58_476D_1CE4_E5B9
    }
}
