import Postgres
import PushCore
import TestSupport
import Testing

/// That peal.check_accounting finds what does not add up: each term has its own source.
@Suite struct AccountingTests {
    /// A fixture with a published job, a frozen one, and one with waiting batches; all add up.
    private func withJobs(_ body: (SendFixture) async throws -> Void) async throws {
        try await withSendFixture(devices: 3_000) { (fixture) async throws in
            _ = try await fixture.insertJob(audience: #"{"device_ids": [1, 2, 3, 9999]}"#)
            try await fixture.query("SELECT peal.fan_out_small('transactional', 10, NULL)")
            try await fixture.query(
                """
                WITH gone AS (DELETE FROM peal.batch WHERE route = 3 RETURNING *)
                INSERT INTO peal.batch_delayed
                    (slot, due_at, lane, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done)
                SELECT slot, now(), lane, app_id, job_id, route, page_no, page_offset, size, 2, expires_at, done FROM gone
                """
            )
            _ = try await fixture.insertJob(audience: #"{"all": true}"#)
            let token = PostgresParameter.uuid(UUIDValue.random())
            try await fixture.query("SELECT peal.claim_jobs('campaign', $1, '1 hour', 10)", [token])
            for step in ["freeze_step(id, $1, '1 hour', 1000)", "publish_pages(id, $1, '1 hour', 1)"] {
                try await fixture.query("SELECT peal.\(step) FROM peal.job WHERE lane = 'campaign'", [token])
            }
            try await fixture.expectAccounts()
            try await body(fixture)
        }
    }

    @Test(arguments: [
        "DELETE FROM peal.batch WHERE id = (SELECT min(id) FROM peal.batch)",
        "DELETE FROM peal.batch_delayed", "DELETE FROM peal.result", "DELETE FROM peal.stat_delta",
        "UPDATE peal.stat_delta SET n = n + 1", "UPDATE peal.job SET published_pages = published_pages + 1",
        "UPDATE peal.job SET audience_count = audience_count + 1",
        "DELETE FROM peal.audience_page WHERE page_no > 1",
        "UPDATE peal.batch SET done = set_bit(done, 0, 1)",
        "INSERT INTO peal.result (job_id, device_id, route, outcome, attempt) SELECT id, 1, 1, 1, 1 FROM peal.job",
    ])
    func `promise 1: whatever is lost or counted twice is found`(damage: String) async throws {
        try await withJobs { (fixture) async throws in
            try await fixture.query(damage)
            #expect(try await fixture.number("SELECT count(*) FROM peal.check_accounting()") > 0)
        }
    }

    @Test func `the status shows the same terms`() async throws {
        try await withJobs { (fixture) async throws in
            let wrong = try await fixture.number(
                """
                SELECT count(*) FROM peal.job_status
                WHERE audience <> accepted + rejected + skipped + expired + superseded + cancelled + unknown + remaining
                """
            )
            #expect(wrong == 0)
            #expect(try await fixture.number("SELECT sum(remaining) FROM peal.job_status") == 1_003)
            try await fixture.query("SELECT peal.roll_up(1000)")
            try await fixture.expectAccounts()
            #expect(try await fixture.number("SELECT sum(skipped) FROM peal.job_status") == 1)
        }
    }
}
