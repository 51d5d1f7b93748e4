import Postgres
import PushCore
import TestSupport
import Testing

@testable import Scheduler

@Suite struct StageTests {
    private func statements(_ connection: PostgresConnection) -> SchedulerStatements {
        SchedulerStatements(connection: connection, configuration: SchedulerConfiguration())
    }

    /// Rows as they stand after an INSERT, without its checks, of which a million would take a minute.
    private func addScheduledJobs(_ fixture: SendFixture, count: Int64, at time: String) async throws {
        try await fixture.query("ALTER TABLE peal.job DISABLE TRIGGER prepare_job")
        try await fixture.query(
            """
            INSERT INTO peal.job (
                id, app, audience, content, lane, app_id, slot, state, queued_at, send_at, expires_at
            )
            SELECT
                gen_random_uuid(), 'shop', '{"all": true}', '{"title": "x"}', 'campaign', a.id, 0, 'scheduled', now(),
                \(time) + n * interval '1 millisecond', 'infinity'
            FROM peal.app AS a, generate_series(1, $1) AS n
            WHERE a.slug = 'shop'
            """,
            [.int64(count)]
        )
        try await fixture.query("ALTER TABLE peal.job ENABLE TRIGGER prepare_job")
    }

    @Test func `jobs become available when they are due by the server's clock`() async throws {
        try await withSendFixture { fixture in
            try await addScheduledJobs(fixture, count: 3, at: "now() - interval '1 minute'")
            try await addScheduledJobs(fixture, count: 2, at: "now() + interval '1 minute'")
            let staged = try await statements(fixture.connection).stageJobs()
            #expect(staged.map(\.lane) == [.campaign])
            #expect(staged.map(\.count) == [3])
            #expect(try await statements(fixture.connection).stageJobs().isEmpty)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE state = 'available'") == 3)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE state = 'scheduled'") == 2)
        }
    }

    @Test func `case 138: of two schedulers one stages a job`() async throws {
        try await withSendFixture { fixture in
            try await addScheduledJobs(fixture, count: 500, at: "now() - interval '1 minute'")
            let total = try await withThrowingTaskGroup(of: Int64.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        try await statements(fixture.database.connect()).stageJobs().reduce(0) { $0 + $1.count }
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(total == 500)
        }
    }

    @Test func `case 139: jobs for next week do not slow down what is due now`() async throws {
        try await withSendFixture { fixture in
            try await addScheduledJobs(fixture, count: 100_000, at: "now() + interval '7 days'")
            try await addScheduledJobs(fixture, count: 100, at: "now() - interval '1 minute'")
            try await fixture.query("ANALYZE peal.job")
            let plan = try await fixture.query(
                """
                EXPLAIN (ANALYZE, BUFFERS, FORMAT TEXT, TIMING OFF)
                SELECT id FROM peal.job WHERE state = 'scheduled' AND send_at <= now() ORDER BY send_at LIMIT 1000
                FOR NO KEY UPDATE SKIP LOCKED
                """
            )
            var text = ""
            for row in plan.indices { text += try plan.text(row, 0) + "\n" }
            #expect(text.contains("Index Scan using job_due"), "\(text)")
            let staged = try await statements(fixture.connection).stageJobs()
            #expect(staged.map(\.count) == [100])
            // What the fan-out looks for does not meet them either.
            let claim = try await fixture.query(
                """
                EXPLAIN (ANALYZE, TIMING OFF) SELECT app_id FROM peal.job
                WHERE lane = 'campaign' AND app_id > 0 AND lease_until <= now() AND small_size IS NULL
                    AND state IN ('available', 'running') AND paused_at IS NULL
                    AND (frozen_at IS NULL OR published_pages < page_count)
                ORDER BY app_id LIMIT 1
                """
            )
            text = ""
            for row in claim.indices { text += try claim.text(row, 0) + "\n" }
            #expect(text.contains("job_fanout"), "\(text)")
            #expect(!text.contains("Seq Scan"), "\(text)")
        }
    }

    @Test func `a paused job is staged and stays paused`() async throws {
        try await withSendFixture { fixture in
            try await addScheduledJobs(fixture, count: 1, at: "now() - interval '1 minute'")
            try await fixture.query("SELECT peal.pause_job(id) FROM peal.job")
            #expect(try await statements(fixture.connection).stageJobs().count == 1)
            #expect(try await fixture.text("SELECT state FROM peal.job_status") == "paused")
            #expect(try await fixture.text("SELECT peal.resume_job(id) FROM peal.job") == "available")
        }
    }
}
