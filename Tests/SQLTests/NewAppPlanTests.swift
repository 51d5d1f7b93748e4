import Postgres
import PushCore
import TestSupport
import Testing

/// The statistics know nothing of an app that had no devices when they were gathered.
@Suite(.timeLimit(.minutes(5)))
struct NewAppPlanTests {
    /// Index entries of the key of devices that the body read.
    private func keysRead(_ fixture: SendFixture, _ body: () async throws -> Void) async throws -> Int64 {
        let read = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'device_pkey'"
        try await fixture.query("SELECT pg_stat_force_next_flush()")
        let before = try await fixture.number(read)
        try await body()
        try await fixture.query("SELECT pg_stat_force_next_flush()")
        return try await fixture.number(read) - before
    }

    @Test(arguments: [
        "SELECT peal.register_device('talk', '{\"channel\": \"android\", \"token\": \"t-1\", \"installation_id\": \"i-9\"}')",
        "SELECT peal.unregister_device('talk', '{\"installation_id\": \"i-2\"}')",
        "SELECT peal.unregister_device('talk', '{\"external_id\": \"user-3\"}')",
        "SELECT peal.unregister_device('talk', '{\"channel\": \"android\", \"token\": \"t-4\"}')",
        """
        SELECT count(*) FROM peal.preview_audience(
            'talk', (SELECT jsonb_build_object('external_ids', jsonb_agg('user-' || n)) FROM generate_series(1, 20) AS n)
        )
        """,
        """
        SELECT (peal.freeze_named(j, '1 hour')).added FROM peal.job AS j WHERE j.app = 'talk'
        """,
    ])
    func `a device of a new app is looked up by index`(statement: String) async throws {
        try await withSendFixture(devices: 1_000) { (fixture) async throws in
            try await fixture.query(
                """
                INSERT INTO peal.device (app_id, channel, token, external_id, installation_id)
                SELECT a.id, 'android', 't-' || n, 'user-' || n, 'i-' || n
                FROM peal.app AS a, generate_series(1, 20000) AS n WHERE a.slug = 'talk'
                """
            )
            let job = try await fixture.insertJob(
                audience: #"{"external_ids": ["user-1", "user-2", "user-3", "nobody"]}"#,
                app: "talk"
            )
            try await fixture.query(
                "UPDATE peal.job SET state = 'running', lease_token = $1 WHERE id = $2",
                [
                    .uuid(.random()), .job(job),
                ]
            )
            let count = try await keysRead(fixture) { () async throws in
                #expect(try await fixture.query(statement).count == 1)
            }
            #expect(count < 200)
        }
    }
}
