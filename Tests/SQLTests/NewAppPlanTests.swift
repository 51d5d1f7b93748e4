import Postgres
import PushCore
import SQLText
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

    private func withNewApp(_ body: (SendFixture) async throws -> Void) async throws {
        try await withSendFixture(devices: 1_000) { (fixture) async throws in
            try await fixture.query(
                """
                INSERT INTO peal.device (app_id, channel, token, external_id, installation_id)
                SELECT a.id, 'android', 't-' || n, 'user-' || n, 'i-' || n
                FROM peal.app AS a, generate_series(1, 20000) AS n WHERE a.slug = 'talk'
                """
            )
            try await body(fixture)
        }
    }

    @Test func `delivery looks up the devices of a new app one by one`() async throws {
        try await withNewApp { (fixture) async throws in
            let app = Int32(try await fixture.number("SELECT id FROM peal.app WHERE slug = 'talk'"))
            let ids = try await fixture.query(
                "SELECT array_agg(d.id) FROM peal.device AS d WHERE d.external_id IN ('user-5', 'user-9000', 'user-19000') AND d.app_id = $1",
                [.int32(app)]
            ).int64Array(0, 0)
            let job = JobID(.random())
            try await fixture.query(
                """
                INSERT INTO peal.audience_page (job_id, page_no, audience_at, route, size, first_id, last_id, ids)
                VALUES ($1, 0, now(), 3, 3, $2, $3, $4)
                """,
                [.job(job), .int64(ids.min()), .int64(ids.max()), .int64s(ids.sorted())]
            )
            let at = try await fixture.query("SELECT audience_at FROM peal.audience_page").timestamp(0, 0)
            let count = try await keysRead(fixture) { () async throws in
                let found = try await fixture.connection.query(
                    SQLText.deliveryResolveRecipients,
                    [.job(job), .int32(0), .int32(0), .int32(3), .int32(app), .timestamp(at)]
                )
                #expect(found.count == 4)
                let together = try await fixture.connection.query(
                    SQLText.deliveryLookUpRecipients,
                    [.uuids([job.value]), .int32s([0]), .int32s([0]), .int32s([3]), .int32s([app]), .timestamps([at])]
                )
                #expect(together.count == 3)
                let disabled = try await fixture.connection.query(
                    SQLText.deliveryDisableDevices,
                    [
                        .int32(app), .int64s(ids), .byteArrays(Array(repeating: Array("t-5".utf8), count: 3)),
                        .timestamps(Array(repeating: WallClock.Instant(microsecondsSinceEpoch: .max), count: 3)),
                        .texts(Array(repeating: "Unregistered", count: 3)),
                    ]
                )
                #expect(disabled.count == 1)
            }
            #expect(count < 100)
        }
    }

    @Test func `devices are looked up one by one though the plan was made when there were none`() async throws {
        try await withSendFixture(devices: 0) { (fixture) async throws in
            try await fixture.query("ALTER TABLE peal.device SET (autovacuum_enabled = off)")
            try await fixture.query("VACUUM ANALYZE peal.device")
            let lookUp = """
                SELECT count(r.token) FROM peal.look_up_recipients(
                    ARRAY[(SELECT job_id FROM peal.audience_page)], '{0}', '{0}', '{3}',
                    ARRAY[(SELECT id FROM peal.app WHERE slug = 'talk')], ARRAY[(SELECT audience_at FROM peal.audience_page)]
                ) AS r
                """
            try await fixture.query(
                """
                INSERT INTO peal.audience_page (job_id, page_no, audience_at, route, size, first_id, last_id, ids)
                VALUES (gen_random_uuid(), 0, now(), 3, 3, 0, 0, '{0}')
                """
            )
            #expect(try await fixture.number(lookUp) == 0)
            try await fixture.query(
                """
                INSERT INTO peal.device (app_id, channel, token, external_id)
                SELECT a.id, 'android', 't-' || n, 'user-' || n
                FROM peal.app AS a, generate_series(1, 20000) AS n WHERE a.slug = 'talk'
                """
            )
            try await fixture.query(
                "UPDATE peal.audience_page SET ids = ARRAY(SELECT id FROM peal.device WHERE token IN ('t-5', 't-600', 't-9999') ORDER BY id)"
            )
            let count = try await keysRead(fixture) { () async throws in
                #expect(try await fixture.number(lookUp) == 3)
            }
            #expect(count < 100)
        }
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
        try await withNewApp { (fixture) async throws in
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
