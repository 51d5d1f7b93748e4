import Postgres
import PushCore
import TestSupport
import Testing

/// What the three roles may do, and nothing else.
@Suite struct InterfaceRoleTests {
    /// Runs a statement as a role; its SQLSTATE when it is refused.
    private func refusal(_ fixture: SendFixture, as role: String, _ text: String) async throws -> SQLState? {
        try await fixture.connection.execute("SET ROLE \(role)")
        let state: SQLState?
        do {
            try await fixture.query(text)
            state = nil
        } catch let error as PostgresError {
            state = error.sqlState
        }
        try await fixture.connection.execute("RESET ROLE")
        return state
    }

    private static let insert = """
        INSERT INTO peal.job (app, audience, content) VALUES ('shop', '{"device_ids": [1]}', '{"title": "x"}') RETURNING id
        """

    @Test func `a producer inserts jobs and reads their state`() async throws {
        try await withSendFixture(devices: 3) { (fixture) async throws in
            #expect(try await refusal(fixture, as: "peal_producer", Self.insert) == nil)
            #expect(
                try await refusal(
                    fixture,
                    as: "peal_producer",
                    Self.insert.replacing("RETURNING id", with: "ON CONFLICT DO NOTHING")
                ) == nil
            )
            #expect(try await refusal(fixture, as: "peal_producer", "SELECT * FROM peal.job_status") == nil)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 2)
        }
    }

    @Test(arguments: [
        "SELECT content FROM peal.job", "SELECT * FROM peal.device", "SELECT * FROM peal.credential",
        "SELECT * FROM peal.app", "SELECT * FROM peal.recipient_result", "UPDATE peal.job SET ttl = 1",
        "DELETE FROM peal.job", "SELECT peal.cancel_job(peal.uuid_v7())", "SELECT * FROM peal.result",
        "INSERT INTO peal.batch (slot, lane, vt, app_id) VALUES (0, 1, 0, 1)", "SELECT peal.check_accounting()",
        "SELECT peal.register_device('shop', '{\"channel\": \"android\", \"token\": \"t\"}')",
        "INSERT INTO peal.job (app, audience, content, state) VALUES ('shop', '{\"all\": true}', '{}', 'running')",
        "SELECT peal.fan_out_small('call', 1, NULL)", "SELECT peal.make_partitions(1)",
    ])
    func `a producer may do nothing else`(statement: String) async throws {
        try await withSendFixture(devices: 3) { (fixture) async throws in
            #expect(try await refusal(fixture, as: "peal_producer", statement) == "42501")
        }
    }

    @Test func `a reader reads states and results`() async throws {
        try await withSendFixture(devices: 3) { (fixture) async throws in
            try await fixture.query(Self.insert)
            try await fixture.query("SELECT peal.fan_out_small('transactional', 10, NULL)")
            #expect(try await refusal(fixture, as: "peal_reader", "SELECT * FROM peal.job_status") == nil)
            #expect(try await refusal(fixture, as: "peal_reader", "SELECT * FROM peal.recipient_result") == nil)
            #expect(try await refusal(fixture, as: "peal_reader", Self.insert) == "42501")
            for table in ["job", "device", "credential", "result", "provider_token", "batch", "audience_page"] {
                #expect(try await refusal(fixture, as: "peal_reader", "SELECT * FROM peal.\(table)") == "42501")
            }
        }
    }

    @Test func `a worker may run everything that peal does by itself`() async throws {
        try await withSendFixture(devices: 300) { (fixture) async throws in
            let statements = [
                "INSERT INTO peal.job (app, audience, content) VALUES ('shop', '{\"all\": true}', '{\"title\": \"x\"}')",
                "SELECT peal.claim_jobs('campaign', '00000000-0000-4000-8000-000000000001', '1 minute', 10)",
                "SELECT peal.freeze_step(id, lease_token, '1 minute', 100) FROM peal.job",
                "SELECT peal.publish_pages(id, lease_token, '1 minute', 2) FROM peal.job",
                Self.insert, "SELECT peal.fan_out_small('transactional', 10, NULL)",
                "SELECT peal.promote_delayed(0::smallint, 10)", "SELECT peal.roll_up(100)",
                "SELECT peal.pause_job(id) FROM peal.job", "SELECT peal.resume_job(id) FROM peal.job",
                "SELECT peal.cancel_job(id) FROM peal.job", "SELECT peal.sweep_ended_jobs(10, 1000)",
                "SELECT peal.complete_settled_jobs('00000000-0000-0000-0000-000000000000', 10)",
                "SELECT peal.hold_role('r', gen_random_uuid(), '1 s')", "SELECT * FROM peal.check_accounting()",
                "SELECT peal.register_device('shop', '{\"channel\": \"android\", \"token\": \"t\"}')",
                "SELECT peal.make_partitions(12)",
            ]
            for statement in statements {
                #expect(try await refusal(fixture, as: "peal_worker", statement) == nil, "\(statement)")
            }
            try await fixture.expectAccounts()
        }
    }

    @Test func `a worker makes the partitions of the days to come and drops those that are over`() async throws {
        try await withSendFixture(devices: 3) { (fixture) async throws in
            let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'peal.result'::regclass"
            let before = try await fixture.number(partitions)
            try await fixture.query(
                "CREATE TABLE peal.result_20200101 PARTITION OF peal.result "
                    + "FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')"
            )
            #expect(try await refusal(fixture, as: "peal_worker", "SELECT peal.make_partitions(9)") == nil)
            #expect(try await refusal(fixture, as: "peal_worker", "SELECT peal.drop_old_partition(35)") == nil)
            #expect(try await fixture.number(partitions) == before + 2)
            // What it made is open to the other workers, who read and write it through its parent or directly.
            let newest =
                "SELECT has_table_privilege('peal_worker', max(inhrelid), 'INSERT')::int FROM pg_inherits "
                + "WHERE inhparent = 'peal.result'::regclass"
            #expect(try await fixture.number(newest) == 1)
        }
    }

    @Test func `nobody outside the roles may call a function`() async throws {
        try await withSendFixture(devices: 1) { (fixture) async throws in
            let open = """
                SELECT count(*) FROM pg_proc AS p
                CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
                WHERE p.pronamespace = 'peal'::regnamespace AND a.grantee = 0
                """
            #expect(try await fixture.number(open) == 0)
        }
    }

    @Test func `whatever runs with the rights of the owner looks names up where the owner says`() async throws {
        try await withSendFixture { (fixture) async throws in
            let definers = try await fixture.query(
                """
                SELECT p.oid::regprocedure::text, coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)
                FROM pg_proc AS p WHERE p.pronamespace = 'peal'::regnamespace AND p.prosecdef
                """
            )
            #expect(definers.count >= 4)
            for row in definers.indices {
                let name = try definers.text(row, 0)
                #expect(try definers.bool(row, 1), "\(name) has no fixed search_path")
            }
        }
    }
}
