import Postgres
import PushCore
import TestSupport
import Testing

@testable import Scheduler

/// A scheduler driven by hand, on a fixture whose jobs are frozen and published by the functions themselves.
struct ManualScheduler {
    let fixture: SendFixture
    let statements: SchedulerStatements

    init(_ fixture: SendFixture) {
        self.fixture = fixture
        statements = SchedulerStatements(connection: fixture.connection, configuration: SchedulerConfiguration())
    }

    /// A job for named devices whose batches are ready.
    func publishedJob(devices: ClosedRange<Int>) async throws -> JobID {
        try await publishedJob(devices: Array(devices))
    }

    /// The same for any device ids.
    func publishedJob(devices: [Int]) async throws -> JobID {
        let ids = devices.map(String.init).joined(separator: ",")
        let job = try await fixture.insertJob(audience: "{\"device_ids\": [\(ids)]}", lane: .transactional)
        try await fixture.query("SELECT peal.fan_out_small('transactional', 100, NULL)")
        return job
    }

    /// A campaign to all of which `steps` steps were frozen and `published` pages published.
    func frozenJob(devicesPerStep: Int32, steps: Int, published: Int32 = 0) async throws -> JobID {
        let job = try await fixture.insertJob(audience: #"{"all": true}"#)
        let token = PostgresParameter.uuid(UUIDValue.random())
        try await fixture.query("SELECT peal.claim_jobs('campaign', $1, interval '1 hour', 10)", [token])
        for _ in 0..<steps {
            try await fixture.query(
                "SELECT peal.freeze_step($1, $2, interval '1 hour', $3)",
                [.job(job), token, .int32(devicesPerStep)]
            )
        }
        if published > 0 {
            try await fixture.query(
                "SELECT peal.publish_pages($1, $2, interval '1 hour', $3)",
                [.job(job), token, .int32(published)]
            )
        }
        return job
    }

    /// Leases the ready batches, and lets the messages below `sendingTo` be on the wire, the first `done` answered.
    func leaseBatches(sendingTo: Int32, done: Int32 = 0, until: String = "now() + interval '1 minute'") async throws {
        try await fixture.query(
            """
            WITH leased AS (
                UPDATE peal.batch AS b SET
                    lease_until = \(until), lease_no = 1, lease_token = gen_random_uuid(), sending_to = least($1, b.size),
                    done = (
                        SELECT coalesce(bit_or_bytes, b.done) FROM (
                            SELECT (
                                SELECT string_agg(
                                    set_byte(
                                        '\\x00', 0,
                                        (SELECT coalesce(sum(1 << (i % 8)), 0)::integer FROM generate_series(0, b.size - 1) AS i
                                         WHERE i / 8 = n AND i < $2)
                                    ), '' ORDER BY n
                                )
                                FROM generate_series(0, length(b.done) - 1) AS n
                            ) AS bit_or_bytes
                        ) AS x
                    )
                RETURNING b.*
            ), settled AS (
                SELECT l.job_id, l.route, r FROM leased AS l
                JOIN peal.audience_page AS p ON p.job_id = l.job_id AND p.page_no = l.page_no
                CROSS JOIN unnest(p.ids[l.page_offset + 1:l.page_offset + least($2, l.size)]) AS r
            ), recorded AS (
                INSERT INTO peal.result (job_id, device_id, route, outcome, attempt)
                SELECT job_id, r, route, 1, 1 FROM settled
            )
            INSERT INTO peal.stat_delta SELECT job_id, 1, '', count(*) FROM settled GROUP BY job_id
            """,
            [.int32(sendingTo), .int32(done)]
        )
    }

    /// Moves the ready batches to where retries wait, due after so many seconds.
    func delayBatches(seconds: Int32) async throws {
        try await fixture.query(
            """
            WITH gone AS (DELETE FROM peal.batch RETURNING *)
            INSERT INTO peal.batch_delayed (
                slot, due_at, lane, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done, sending_to
            )
            SELECT
                slot, now() + $1 * interval '1 second', lane, app_id, job_id, route, page_no, page_offset, size,
                attempt + 1, expires_at, done, sending_to
            FROM gone
            """,
            [.int32(seconds)]
        )
    }

    /// Sweeps until nothing is left, checking promise 1 after each step; how many recipients got their outcome.
    func sweepAll() async throws -> Int64 {
        var total: Int64 = 0
        while true {
            let settled = try await statements.sweepEndedJobs()
            try await fixture.expectAccounts()
            guard settled > 0 else { return total }
            total += settled
        }
    }
}
