import Postgres
import PushCore
import TestSupport
import Testing

/// Cancel, pause and resume.
@Suite struct InterfaceControlTests {
    /// A job with ready batches.
    private func publishedJob(_ fixture: SendFixture, devices: ClosedRange<Int> = 1...20) async throws -> JobID {
        let ids = devices.map(String.init).joined(separator: ",")
        let job = try await fixture.insertJob(audience: "{\"device_ids\": [\(ids)]}", lane: .transactional)
        try await fixture.query("SELECT peal.fan_out_small('transactional', 10, NULL)")
        return job
    }

    private func call(_ fixture: SendFixture, _ function: String, _ job: JobID) async throws -> String? {
        try await fixture.text("SELECT peal.\(function)($1)", [.job(job)])
    }

    @Test func `promise 6: pause sets ready batches aside at once, resume brings them back`() async throws {
        try await withSendFixture(devices: 40) { (fixture) async throws in
            let job = try await publishedJob(fixture)
            let other = try await publishedJob(fixture, devices: 21...40)
            // One batch is in hand: its worker sets it aside at its next flush.
            try await fixture.query(
                """
                UPDATE peal.batch SET lease_until = now() + interval '1 minute', lease_token = gen_random_uuid()
                WHERE id = (SELECT min(id) FROM peal.batch WHERE job_id = $1)
                """,
                [.job(job)]
            )
            #expect(try await call(fixture, "pause_job", job) == "paused")
            #expect(try await fixture.state(job) == "paused")
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch WHERE job_id = $1", [.job(job)]) == 1)
            #expect(
                try await fixture.number("SELECT count(*) FROM peal.batch_delayed WHERE due_at = 'infinity'") == 1
            )
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch WHERE job_id = $1", [.job(other)]) == 2)
            try await fixture.expectAccounts()
            #expect(try await call(fixture, "pause_job", job) == "paused")
            #expect(try await call(fixture, "resume_job", job) == "running")
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch_delayed WHERE due_at <= now()") == 1)
            #expect(try await call(fixture, "resume_job", job) == "running")
            try await fixture.query("SELECT peal.promote_delayed(0::smallint, 10)")
            #expect(try await fixture.number("SELECT sum(size) FROM peal.batch WHERE job_id = $1", [.job(job)]) == 20)
            try await fixture.expectAccounts()
        }
    }

    @Test func `a retry that was due later is due at the same time after a pause`() async throws {
        try await withSendFixture(devices: 20) { (fixture) async throws in
            let job = try await publishedJob(fixture)
            try await fixture.query(
                """
                WITH gone AS (DELETE FROM peal.batch RETURNING *)
                INSERT INTO peal.batch_delayed
                    (slot, due_at, lane, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done)
                SELECT slot, '2100-01-01', lane, app_id, job_id, route, page_no, page_offset, size, 2, expires_at, done
                FROM gone
                """
            )
            _ = try await call(fixture, "pause_job", job)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch_delayed WHERE due_at = 'infinity'") == 2)
            _ = try await call(fixture, "resume_job", job)
            #expect(
                try await fixture.number("SELECT count(*) FROM peal.batch_delayed WHERE due_at = '2100-01-01'") == 2
            )
            try await fixture.expectAccounts()
        }
    }

    @Test func `a job that has ended stays as it is, whatever is asked`() async throws {
        try await withSendFixture(devices: 1) { (fixture) async throws in
            let job = try await fixture.insertJob(audience: #"{"external_ids": ["nobody"]}"#)
            try await fixture.query("SELECT peal.fan_out_small('transactional', 10, NULL)")
            for function in ["cancel_job", "pause_job", "resume_job"] {
                #expect(try await call(fixture, function, job) == "completed")
            }
            #expect(try await fixture.state(job) == "completed")
        }
    }

    @Test func `cancel ends a pause, and a cancelled job does not resume`() async throws {
        try await withSendFixture(devices: 20) { (fixture) async throws in
            let job = try await publishedJob(fixture)
            _ = try await call(fixture, "pause_job", job)
            #expect(try await call(fixture, "cancel_job", job) == "cancelled")
            #expect(try await fixture.state(job) == "cancelled")
            #expect(try await call(fixture, "resume_job", job) == "cancelled")
            #expect(try await call(fixture, "pause_job", job) == "cancelled")
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE paused_at IS NULL") == 1)
            try await fixture.expectAccounts()
        }
    }

    @Test func `scheduled jobs can be cancelled, paused and resumed`() async throws {
        try await withSendFixture { (fixture) async throws in
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content, send_at)
                VALUES ('shop', '{"all": true}', '{"title": "x"}', now() + interval '1 day')
                """
            )
            let job = JobID(try await fixture.query("SELECT id FROM peal.job").uuid(0, 0))
            #expect(try await call(fixture, "pause_job", job) == "paused")
            #expect(try await fixture.state(job) == "paused")
            #expect(try await call(fixture, "resume_job", job) == "scheduled")
            #expect(try await call(fixture, "cancel_job", job) == "cancelled")
        }
    }

    @Test(arguments: ["cancel_job", "pause_job", "resume_job"])
    func `an unknown job is an error that says so`(function: String) async throws {
        try await withSendFixture { (fixture) async throws in
            let id = JobID(UUIDValue.random())
            let error = await #expect(throws: PostgresError.self) { _ = try await call(fixture, function, id) }
            #expect(error?.sqlState == "P0002")
            #expect(error?.message == "no job has the id \(id)")
        }
    }
}
