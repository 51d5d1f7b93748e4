package import Postgres
package import PushCore
package import Testing

/// A database with the app `shop` and devices: the ground that most tests of sending stand on.
package struct SendFixture: Sendable {
    package let database: TestDatabase
    package let connection: PostgresConnection

    package init(database: TestDatabase, connection: PostgresConnection) {
        self.database = database
        self.connection = connection
    }

    func addApps() async throws {
        try await query("INSERT INTO peal.app (slug) VALUES ('shop'), ('talk')")
    }

    /// Cuts every connection to this database but the test's own.
    package func terminateOthers() async throws {
        try await query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                + "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    }

    /// Runs a statement of the test's own.
    @discardableResult
    package func query(_ text: String, _ parameters: PostgresParameters = .none) async throws -> PostgresRows {
        try await connection.query(SQLStatement(name: "test", text: text), parameters)
    }

    /// The whole number that a statement returns.
    package func number(_ text: String, _ parameters: PostgresParameters = .none) async throws -> Int64 {
        try await query("SELECT (SELECT n FROM (\(text)) AS q (n))::bigint", parameters).int64(0, 0)
    }

    /// The text that a statement returns; nil for null.
    package func text(_ text: String, _ parameters: PostgresParameters = .none) async throws -> String? {
        try await query("SELECT (SELECT t FROM (\(text)) AS q (t))::text", parameters).textOrNil(0, 0)
    }

    /// Adds devices numbered from 1 on to an app: two of five iOS, one in 100 of them sandbox; `user-N`, tags
    /// `city` (`izmir` for each sixth, else `c0` to `c49`) and `vip` (each hundredth).
    package func addDevices(_ count: Int, app: String = "shop") async throws {
        try await query(
            """
            INSERT INTO peal.device (app_id, channel, environment, token, external_id, tags, locale)
            SELECT
                a.id, CASE WHEN n % 5 < 2 THEN 'ios' ELSE 'android' END,
                CASE WHEN n % 100 = 0 THEN 'sandbox' ELSE 'production' END,
                CASE WHEN n % 5 < 2 THEN md5(n::text) || md5(n::text) ELSE 'fcm-' || n END, 'user-' || n,
                jsonb_build_object('city', CASE WHEN n % 6 = 0 THEN 'izmir' ELSE 'c' || n % 50 END, 'vip', n % 100 = 0),
                'tr-TR'
            FROM peal.app AS a, generate_series(1, $2) AS n
            WHERE a.slug = $1
            """,
            [.text(app), .int64(Int64(count))]
        )
        try await query("ANALYZE peal.device")
    }

    /// Inserts a job as an outsider does.
    package func insertJob(
        audience: String,
        app: String = "shop",
        lane: Lane? = nil,
        ttl: Int32? = nil
    ) async throws -> JobID {
        let rows = try await query(
            """
            INSERT INTO peal.job (app, audience, content, lane, ttl)
            VALUES ($1, $2::jsonb, '{"title": "Hello"}', $3, $4) RETURNING id
            """,
            [.text(app), .jsonb(audience), .text(lane?.name), .int32(ttl)]
        )
        return JobID(try rows.uuid(0, 0))
    }

    /// The state that `peal.job_status` shows.
    package func state(_ job: JobID) async throws -> String? {
        try await text("SELECT state FROM peal.job_status WHERE id = $1", [.job(job)])
    }

    /// How many recipients have an outcome, counted from their rows.
    package func results(_ job: JobID, _ outcome: String) async throws -> Int64 {
        try await number(
            "SELECT count(*) FROM peal.recipient_result WHERE job_id = $1 AND outcome = $2",
            [.job(job), .text(outcome)]
        )
    }

    /// Promise 1, now: the count of every job adds up.
    package func expectAccounts(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let wrong = try await query("SELECT job_id::text FROM peal.check_accounting()")
        var jobs: [String] = []
        for row in wrong.indices { jobs.append(try wrong.text(row, 0)) }
        #expect(jobs.isEmpty, "the count does not add up", sourceLocation: sourceLocation)
    }

    /// Moves a job's time to its end: it expired a second ago.
    package func expire(_ job: JobID) async throws {
        try await query("UPDATE peal.job SET expires_at = now() - interval '1 second' WHERE id = $1", [.job(job)])
    }
}

/// Gives a test a database with the apps `shop` and `talk` and some devices of `shop`.
package func withSendFixture(devices: Int = 0, _ body: (SendFixture) async throws -> Void) async throws {
    try await withDatabase { database in
        let fixture = SendFixture(database: database, connection: try await database.connect())
        try await fixture.addApps()
        if devices > 0 { try await fixture.addDevices(devices) }
        try await body(fixture)
    }
}
