import Postgres
import PushCore
import SQLText
import TestSupport
import Testing

/// That the hot statements stay on their indexes, however many rows there are.
@Suite struct ClaimPlanTests {
    /// The plan of a statement as text, with what each node read. The statement runs and is rolled back.
    private func plan(_ fixture: SendFixture, _ text: String) async throws -> String {
        try await fixture.connection.execute("BEGIN")
        let rows = try await fixture.query("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) \(text)")
        var lines = ""
        for row in rows.indices { lines += try rows.text(row, 0) + "\n" }
        try await fixture.connection.execute("ROLLBACK")
        return lines
    }

    /// A claim of slot 0: 30 s, 4 batches, the given floor, every app, a first window of 1,000.
    private func claim(floor: Int64) -> String {
        "SELECT * FROM peal.claim_batches_campaign(0::smallint, '30 s', 4, \(floor), '{}', 1000)"
    }

    /// A flush that renews one batch and ends another.
    private let settlement = """
        SELECT * FROM peal.settle_batches_campaign(
            0::smallint, (SELECT array_agg(id ORDER BY vt) FROM held), '{7, 8}', (SELECT array_agg(lease_token) FROM held),
            (SELECT array_agg(done) FROM held), '{0, 0}', '{1, 1}', '{0, 2}', '30 s', '{}', false, '{0, 0}',
            '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'
        )
        """

    /// Makes the batches ready that `settlement` writes, or what looks like them where there are none.
    private func hold(_ fixture: SendFixture) async throws {
        try await fixture.query(
            "UPDATE peal.batch_campaign SET lease_token = gen_random_uuid() WHERE slot = 0 AND vt IN (7, 8)"
        )
        try await fixture.query("DROP TABLE IF EXISTS held")
        try await fixture.query(
            """
            CREATE TEMP TABLE held AS
            SELECT v.vt, coalesce(b.id, v.vt) AS id, coalesce(b.lease_token, gen_random_uuid()) AS lease_token,
                coalesce(b.done, '\\x00') AS done
            FROM (VALUES (7), (8)) AS v (vt) LEFT JOIN peal.batch_campaign AS b USING (vt)
            """
        )
    }

    /// How many blocks a statement reads, and how many tables of the queue it scans, once its plan is kept.
    private func cost(_ fixture: SendFixture, _ text: String) async throws -> (blocks: Int, scans: Int64) {
        let scans = "SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables WHERE relname IN ('batch_campaign', 'job')"
        _ = try await plan(fixture, text)
        try await fixture.query("SELECT pg_stat_force_next_flush()")
        let before = try await fixture.number(scans)
        let plan = try await plan(fixture, text)
        let blocks = try #require(plan.firstMatch(of: /Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/))
        let count = [blocks.1, blocks.2].reduce(0) { $0 + ($1.flatMap { Int($0) } ?? 0) }
        try await fixture.query("SELECT pg_stat_force_next_flush()")
        return (count, try await fixture.number(scans) - before)
    }

    /// Adds ready batches of a hundred apps.
    private func addBatches(_ fixture: SendFixture, _ count: Int64, analyzed: Bool = true) async throws {
        try await fixture.query(
            """
            INSERT INTO peal.batch (slot, lane, vt, app_id, job_id, route, page_no, page_offset, size, expires_at, done)
            SELECT 0, 3, n, n % 100, gen_random_uuid(), 1, 0, 0, 1000, 'infinity', decode(repeat('00', 125), 'hex')
            FROM generate_series(1, $1) AS n
            """,
            [.int64(count)]
        )
        // A table that was never analysed counts as ten pages.
        if count > 0, analyzed { try await fixture.query("ANALYZE peal.batch_campaign") }
    }

    /// Holds that a claim scans no table, and reads no more than four batches are worth.
    private func expectIndexes(
        _ fixture: SendFixture,
        _ count: Int64,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let cost = try await cost(fixture, claim(floor: 0))
        #expect(cost.blocks < 150 && cost.scans == 0, "\(count) rows: \(cost)", sourceLocation: sourceLocation)
    }

    @Test func `the claim stays on its two indexes with no row, a thousand and a hundred thousand`() async throws {
        try await withSendFixture { (fixture) async throws in
            var total: Int64 = 0
            for count: Int64 in [0, 1_000, 99_000] {
                try await addBatches(fixture, count)
                total += count
                try await expectIndexes(fixture, total)
            }
        }
    }

    @Test(arguments: [false, true])
    func `claim and flush stay on their indexes though their plans were made when the queue was empty`(
        wasUsed: Bool
    ) async throws {
        try await withSendFixture { (fixture) async throws in
            // Nobody else makes the plans anew.
            try await fixture.query("ALTER TABLE peal.batch_campaign SET (autovacuum_enabled = off)")
            if wasUsed {
                try await addBatches(fixture, 1_000)
                try await fixture.query("DELETE FROM peal.batch")
            }
            try await fixture.query("VACUUM ANALYZE peal.batch_campaign")
            try await hold(fixture)
            for _ in 0..<2 {
                try await fixture.query(claim(floor: 0))
                try await fixture.query(settlement)
            }
            try await addBatches(fixture, 50_000, analyzed: false)
            try await hold(fixture)
            try await expectIndexes(fixture, 50_000)
            let settled = try await cost(fixture, settlement)
            #expect(settled.blocks < 150 && settled.scans == 0, "\(settled)")
            #expect(try await fixture.query(settlement).count == 2)
        }
    }

    @Test func `the round over jobs in hand costs the same however many are scheduled for later`() async throws {
        try await withSendFixture { (fixture) async throws in
            try await fixture.query("SET session_replication_role = replica")
            try await addScheduledJobs(fixture, 100_000)
            try await fixture.query("RESET session_replication_role")
            let round = "SELECT * FROM peal.complete_settled_jobs('00000000-0000-0000-0000-000000000000', 1000)"
            _ = try await fixture.query(round)
            let blocks = try #require(try await plan(fixture, round).firstMatch(of: /shared hit=(\d+)/))
            #expect(try #require(Int(blocks.1)) < 200)
        }
    }

    @Test func `a claim among the jobs of late costs the same whatever an old snapshot keeps alive`() async throws {
        try await withSendFixture { (fixture) async throws in
            try await fixture.query("SET session_replication_role = replica")
            try await addScheduledJobs(fixture, 20_000)
            try await fixture.query(
                "UPDATE peal.job SET state = 'available', lease_until = now() - interval '1 minute'"
            )
            try await fixture.query("RESET session_replication_role")
            try await fixture.query("VACUUM ANALYZE peal.job")
            let reader = try await fixture.database.connect()
            try await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM peal.job")
            try await fixture.query("UPDATE peal.job SET state = 'completed', completed_at = now()")
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            func blocks(_ since: String) async throws -> Int {
                let claim = """
                    SELECT c.job_id FROM peal.claim_jobs('campaign', gen_random_uuid(), '1 minute', 16, since => \(since)) AS c
                    """
                _ = try await plan(fixture, claim)
                let plan = try await plan(fixture, claim)
                #expect(plan.contains("rows=1 loops"), "\(plan)")
                let hits = try #require(plan.firstMatch(of: /shared hit=(\d+)/))
                return try #require(Int(hits.1))
            }
            #expect(try await blocks("now() - interval '10 seconds'") < 300)
            #expect(try await blocks("NULL") > 1_000)
            #expect(
                try await fixture.query(
                    "SELECT c.job_id FROM peal.claim_jobs('campaign', gen_random_uuid(), '1 minute', 16) AS c"
                ).uuid(0, 0) == job.value
            )
            try await reader.execute("COMMIT")
            await reader.close()
        }
    }

    @Test func `what is too old is found by its index, however many jobs ended since`() async throws {
        try await withSendFixture { (fixture) async throws in
            try await fixture.query("SET session_replication_role = replica")
            try await addScheduledJobs(fixture, 100_001)
            try await fixture.query(
                "UPDATE peal.job SET state = 'completed', completed_at = now() - interval '1 day'"
            )
            // The newest id: a walk along the ids meets all the others first.
            try await fixture.query(
                """
                UPDATE peal.job SET completed_at = now() - interval '40 days'
                WHERE id = (SELECT id FROM peal.job ORDER BY id DESC LIMIT 1)
                """
            )
            try await fixture.query("RESET session_replication_role")
            try await fixture.query(
                """
                DO $$ DECLARE day date := (now() AT TIME ZONE 'UTC')::date - 39; BEGIN EXECUTE format(
                    'CREATE TABLE peal.%I PARTITION OF peal.result FOR VALUES FROM (%L) TO (%L)',
                    'result_' || to_char(day, 'YYYYMMDD'), day || ' 00:00+00', day + 1 || ' 00:00+00'
                ); END $$
                """
            )
            try await fixture.query("VACUUM ANALYZE peal.job")
            let round = "SELECT peal.drop_old_partition(35)"
            _ = try await plan(fixture, round)
            let blocks = try #require(try await plan(fixture, round).firstMatch(of: /shared hit=(\d+)/))
            #expect(try #require(Int(blocks.1)) < 500)
            #expect(try await fixture.text(round) != nil)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 100_000)
        }
    }

    /// Adds jobs for next year past the checks of an INSERT, which would take a minute.
    private func addScheduledJobs(_ fixture: SendFixture, _ count: Int64) async throws {
        try await fixture.query(
            """
            INSERT INTO peal.job (
                app, audience, content, lane, app_id, slot, state, queued_at, send_at, expires_at
            )
            SELECT
                'shop', '{"all": true}', '{"title": "x"}', 'campaign', a.id, 0, 'scheduled', now(),
                now() + interval '1 year', now() + interval '2 years'
            FROM peal.app AS a, generate_series(1, $1) AS n
            WHERE a.slug = 'shop'
            """,
            [.int64(count)]
        )
    }

    @Test func `a floor steps over what is leased and what old snapshots keep alive`() async throws {
        try await withSendFixture { (fixture) async throws in
            try await addBatches(fixture, 20_000)
            let reader = try await fixture.database.connect()
            try await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM peal.batch")
            try await fixture.query("DELETE FROM peal.batch WHERE vt <= 18000")
            try await fixture.query("UPDATE peal.batch SET lease_until = now() + interval '1 minute' WHERE vt <= 19000")
            let withFloor = try await cost(fixture, claim(floor: 19_001))
            let withoutFloor = try await cost(fixture, claim(floor: 0))
            #expect(withFloor.blocks < 150, "\(withFloor)")
            #expect(withoutFloor.blocks > 1_000, "\(withoutFloor)")
            try await reader.execute("COMMIT")
            await reader.close()
        }
    }

    @Test func `an update of a lease stays on its page`() async throws {
        try await withSendFixture { (fixture) async throws in
            try await addBatches(fixture, 1_000)
            for step in 0..<300 {
                try await fixture.query(
                    """
                    UPDATE peal.batch_campaign SET lease_until = now() + interval '1 second', lease_no = lease_no + 1
                    WHERE slot = 0 AND id BETWEEN $1 AND $1 + 4
                    """,
                    [.int64(Int64(step * 7 % 990 + 1))]
                )
            }
            try await fixture.query("SELECT pg_stat_force_next_flush()")
            let share = try await fixture.number(
                """
                SELECT 100 * n_tup_hot_upd / n_tup_upd FROM pg_stat_user_tables WHERE relname = 'batch_campaign'
                """
            )
            #expect(share >= 90)
        }
    }

    @Test func `small jobs find their devices by index among many, with the plan that is kept`() async throws {
        try await withSendFixture(devices: 50_000) { (fixture) async throws in
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content)
                SELECT 'shop', jsonb_build_object('external_ids', jsonb_build_array('user-' || n)), '{"title": "x"}'
                FROM generate_series(1, 500) AS n
                """
            )
            try await fixture.query("SELECT pg_stat_force_next_flush()")
            let before = try await fixture.number("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'device'")
            for _ in 0..<10 { try await fixture.query("SELECT peal.fan_out_small('transactional', 50, NULL)") }
            try await fixture.query("SELECT pg_stat_force_next_flush()")
            let after = try await fixture.number("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'device'")
            #expect(after == before)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch") == 500)
        }
    }

    @Test func `no step of fan-out or scheduler is compiled, whatever the server is set to`() async throws {
        try await withSendFixture { (fixture) async throws in
            for name in [
                "fan_out_small", "claim_jobs", "freeze_step", "publish_pages", "promote_delayed", "roll_up",
                "complete_settled_jobs", "sweep_ended_jobs", "drop_old_partition", "claim_batches_transactional",
                "settle_batches_campaign", "read_sent_jobs", "look_up_recipients",
            ] {
                let settings = try await fixture.text(
                    "SELECT proconfig::text FROM pg_proc WHERE oid = $1::text::regproc",
                    [.text("peal.\(name)")]
                )
                #expect(settings?.contains("jit=off") == true, "\(name)")
            }
        }
    }

    @Test func `a narrow rule is not resolved by walking the key`() async throws {
        try await withSendFixture(devices: 50_000) { (fixture) async throws in
            try await fixture.query("UPDATE peal.device SET tags = '{\"rare\": 1}' WHERE id % 2500 = 0")
            try await fixture.query("ANALYZE peal.device")
            let condition = try #require(
                try await fixture.text(
                    "SELECT peal.reachable_condition(a.id, '{\"filter\": {\"tag.rare\": 1}}') FROM peal.app AS a WHERE slug = 'shop'"
                )
            )
            #expect(
                try await fixture.text(
                    "SELECT peal.is_narrow(a.id, $1) FROM peal.app AS a WHERE slug = 'shop'",
                    [.text(condition)]
                )
                    == "true"
            )
            let plan = try await plan(
                fixture,
                "SELECT n.id FROM (SELECT d.id, d.route FROM peal.device AS d WHERE \(condition) OFFSET 0) AS n ORDER BY n.id"
            )
            #expect(plan.contains("device_tags"), "\(plan)")
            #expect(!plan.contains("device_pkey"), "\(plan)")
        }
    }
}
