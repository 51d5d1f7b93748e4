import Postgres
import PushCore
import TestSupport
import Testing

@testable import Fanout

@Suite struct SmallJobTests {
    private func statements(_ connection: PostgresConnection) -> FanoutStatements {
        FanoutStatements(connection: connection, configuration: FanoutConfiguration())
    }

    /// Inserts jobs for one user each.
    private func insertJobs(_ fixture: SendFixture, users: ClosedRange<Int>) async throws {
        try await fixture.query(
            """
            INSERT INTO peal.job (app, audience, content)
            SELECT 'shop', jsonb_build_object('external_ids', jsonb_build_array('user-' || n)), '{"title": "Hello"}'
            FROM generate_series($1, $2) AS n
            """,
            [.int64(Int64(users.lowerBound)), .int64(Int64(users.upperBound))]
        )
    }

    @Test func `a job for one user becomes a ready batch in one statement`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            let job = try await fixture.insertJob(audience: #"{"external_ids": ["user-5"]}"#)
            let taken = try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: .seconds(10))
            #expect(taken == (1, 1))
            try await fixture.expectAccounts()
            let batch = try await fixture.query(
                """
                SELECT b.lane, b.route, b.size, b.attempt, b.done, p.ids
                FROM peal.batch AS b JOIN peal.audience_page AS p ON p.job_id = b.job_id AND p.page_no = b.page_no
                """
            )
            #expect(batch.count == 1)
            #expect(try batch.int16(0, 0) == 2)
            #expect(try batch.int16(0, 1) == 1)
            #expect(try batch.int32(0, 2) == 1)
            #expect(try batch.int16(0, 3) == 1)
            #expect(try batch.bytes(0, 4) == [0])
            #expect(try batch.int64Array(0, 5) == [5])
            #expect(try await fixture.state(job) == "running")
            #expect(try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: nil) == (0, 0))
        }
    }

    @Test func `several devices, channels and refusals of one user add up`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            try await fixture.query("UPDATE peal.device SET external_id = 'anna' WHERE id <= 12")
            try await fixture.query("UPDATE peal.device SET disabled_at = now() WHERE id = 3")
            let job = try await fixture.insertJob(
                audience: #"{"external_ids": ["anna", "nobody"], "device_ids": [1, 2, 77]}"#
            )
            #expect(try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: nil) == (1, 2))
            try await fixture.expectAccounts()
            let status = try await fixture.query(
                "SELECT audience, remaining, skipped_by_reason::text FROM peal.job_status WHERE id = $1",
                [.job(job)]
            )
            #expect(try status.int64(0, 0) == 14)
            #expect(try status.int64(0, 1) == 11)
            #expect(
                try status.text(0, 2) == #"{"disabled": 1, "unknown_device_id": 1, "unknown_external_id": 1}"#
            )
        }
    }

    @Test func `a job that reaches nobody completes with its reasons`() async throws {
        try await withSendFixture(devices: 1) { fixture in
            let job = try await fixture.insertJob(audience: #"{"external_ids": ["nobody"]}"#)
            #expect(try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: nil) == (1, 0))
            #expect(try await fixture.state(job) == "completed")
            #expect(try await fixture.results(job, "skipped") == 1)
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 2: four processes at once take each of a thousand jobs once`() async throws {
        try await withSendFixture(devices: 1_000) { fixture in
            try await insertJobs(fixture, users: 1...1_000)
            let total = try await withThrowingTaskGroup(of: Int32.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        let connection = try await fixture.database.connect()
                        var configuration = FanoutConfiguration()
                        configuration.smallJobsPerStep = 50
                        let statements = FanoutStatements(connection: connection, configuration: configuration)
                        var total: Int32 = 0
                        while true {
                            let taken = try await statements.fanOutSmallJobs(.transactional, since: nil)
                            guard taken.jobs > 0 else { return total }
                            total += taken.jobs
                        }
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(total == 1_000)
            #expect(try await fixture.number("SELECT count(DISTINCT job_id) FROM peal.batch") == 1_000)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch") == 1_000)
            try await fixture.expectAccounts()
        }
    }

    @Test func `a look at young jobs passes older ones by, a full look takes them`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            try await fixture.query(
                """
                INSERT INTO peal.job (id, app, audience, content)
                VALUES ('00000000-0000-7000-8000-000000000001', 'shop', '{"device_ids": [1]}', '{"title": "x"}')
                """
            )
            let statements = statements(fixture.connection)
            #expect(try await statements.fanOutSmallJobs(.transactional, since: .seconds(10)) == (0, 0))
            #expect(try await statements.fanOutSmallJobs(.transactional, since: nil) == (1, 1))
        }
    }

    @Test(arguments: [
        #"{"all": true}"#, #"{"segments": ["vip"]}"#, #"{"filter": {"tag.vip": true}, "device_ids": [1]}"#,
        #"{"device_ids": [1], "excluded_segments": ["vip"]}"#,
    ])
    func `audiences that are a rule are left to the freeze`(audience: String) async throws {
        try await withSendFixture(devices: 10) { fixture in
            try await fixture.query(
                "INSERT INTO peal.segment SELECT id, 'vip', '{\"tag.vip\": true}' FROM peal.app WHERE slug = 'shop'"
            )
            _ = try await fixture.insertJob(audience: audience, lane: .transactional)
            #expect(try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: nil) == (0, 0))
        }
    }

    @Test func `promise 10: calls are ordered by their time, before anything else is looked at`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            for user in [3, 4] { _ = try await fixture.insertJob(audience: "{\"device_ids\": [\(user)]}", lane: .call) }
            let before = try await fixture.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
            #expect(try await statements(fixture.connection).fanOutSmallJobs(.call, since: nil) == (2, 2))
            #expect(try await fixture.number("SELECT min(vt) FROM peal.batch_call") >= before)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch_call") == 2)
            #expect(try await fixture.number("SELECT count(*) FROM peal.app_lane") == 0)
        }
    }

    @Test func `paused, scheduled and cancelled jobs are not taken`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            let paused = try await fixture.insertJob(audience: #"{"device_ids": [1]}"#)
            let cancelled = try await fixture.insertJob(audience: #"{"device_ids": [2]}"#)
            try await fixture.query("SELECT peal.pause_job($1), peal.cancel_job($2)", [.job(paused), .job(cancelled)])
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content, send_at)
                VALUES ('shop', '{"device_ids": [3]}', '{"title": "x"}', now() + interval '1 hour')
                """
            )
            #expect(try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: nil) == (0, 0))
            try await fixture.query("SELECT peal.resume_job($1)", [.job(paused)])
            #expect(try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: nil) == (1, 1))
        }
    }

    @Test func `a thousand jobs are four transactions, in the order of their arrival`() async throws {
        try await withSendFixture(devices: 1_000) { fixture in
            try await insertJobs(fixture, users: 1...1_000)
            let statements = statements(fixture.connection)
            var steps = 0
            while try await statements.fanOutSmallJobs(.transactional, since: .seconds(10)).jobs > 0 { steps += 1 }
            #expect(steps == 4)
            let outOfOrder = try await fixture.number(
                """
                SELECT count(*) FROM (SELECT job_id < lag(job_id) OVER (ORDER BY vt, id) AS late FROM peal.batch) AS b
                WHERE late
                """
            )
            #expect(outOfOrder == 0)
        }
    }
}
