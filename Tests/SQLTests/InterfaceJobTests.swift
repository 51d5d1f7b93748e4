import Postgres
import PushCore
import TestSupport
import Testing

/// What an INSERT into peal.job refuses, and what it fills in.
@Suite struct InterfaceJobTests {
    /// A row that is refused: what differs from a good one, and how the message begins.
    struct Refusal: Sendable, CustomTestStringConvertible {
        var app = "'shop'"
        var audience = #"{"all": true}"#
        var content = #"{"title": "Hello"}"#
        /// Further columns and their values.
        var more: (columns: String, values: String) = ("", "")
        let message: String

        var testDescription: String { message }
    }

    static let refusals: [Refusal] = [
        Refusal(app: "'shoe'", message: #"app: there is no app called "shoe""#),
        Refusal(app: "NULL", message: "app is missing"),
        Refusal(app: "''", message: #"app: there is no app called """#),
        Refusal(audience: "[]", message: "audience must be an object, found array"),
        Refusal(audience: "{}", message: "audience names nobody"),
        Refusal(audience: #"{"channels": ["ios"]}"#, message: "audience names nobody"),
        Refusal(audience: #"{"all": false}"#, message: "audience.all must be true"),
        Refusal(audience: #"{"all": true, "segments": ["a"]}"#, message: "audience.all already means every device"),
        Refusal(
            audience: #"{"segment": ["a"], "all": true}"#,
            message: "audience.segment is not known (did you mean segments?)"
        ),
        Refusal(audience: #"{"segments": ["a"]}"#, message: #"audience.segments: the app has no segment called "a""#),
        Refusal(
            audience: #"{"all": true, "excluded_segments": ["b"]}"#,
            message: #"audience.excluded_segments: the app has no segment called "b""#
        ),
        Refusal(audience: #"{"external_ids": []}"#, message: "audience.external_ids is empty"),
        Refusal(
            audience: #"{"external_ids": "a"}"#,
            message: "audience.external_ids must be an array of text, found string"
        ),
        Refusal(audience: #"{"external_ids": [1]}"#, message: "audience.external_ids must hold text that is not empty"),
        Refusal(
            audience: #"{"external_ids": [""]}"#,
            message: "audience.external_ids must hold text that is not empty"
        ),
        Refusal(audience: #"{"device_ids": []}"#, message: "audience.device_ids must hold 1 to 100000 numbers"),
        Refusal(audience: #"{"device_ids": ["1"]}"#, message: "audience.device_ids must hold whole numbers above 0"),
        Refusal(audience: #"{"device_ids": [0]}"#, message: "audience.device_ids must hold whole numbers above 0"),
        Refusal(audience: #"{"device_ids": [1.5]}"#, message: "audience.device_ids must hold whole numbers above 0"),
        Refusal(
            audience: #"{"device_ids": [99999999999999999999]}"#,
            message: "audience.device_ids must hold whole numbers"
        ),
        Refusal(
            audience: #"{"all": true, "channels": ["web"]}"#,
            message: "audience.channels may hold ios and android"
        ),
        Refusal(audience: #"{"filter": {}}"#, message: "audience.filter is empty"),
        Refusal(audience: #"{"filter": {"city": "x"}}"#, message: "audience.filter.city is not known"),
        Refusal(
            audience: #"{"filter": {"timezon": "x"}}"#,
            message: "audience.filter.timezon is not known (did you mean timezone?)"
        ),
        Refusal(
            audience: #"{"external_ids": ["a"], "recipients": []}"#,
            message: "audience.recipients is not supported by this version"
        ),
        Refusal(content: #"{"titel": "Hello"}"#, message: "content.titel"),
        Refusal(
            content: "{\"body\": \"\(String(repeating: "x", count: 5_000))\"}",
            message: "content: its apns payload would be 5"
        ),
        Refusal(more: ("kind", "'call'"), message: "kind: calls are not supported by this version"),
        Refusal(more: ("kind", "'mail'"), message: #"kind must be push, found "mail""#),
        Refusal(more: ("lane", "'fast'"), message: #"lane must be call, transactional or campaign, found "fast""#),
        Refusal(more: ("on_doubt", "'guess'"), message: #"on_doubt must be resend or unknown, found "guess""#),
        Refusal(more: ("on_doubt", "NULL"), message: "on_doubt is missing"),
        Refusal(more: ("kind", "NULL"), message: "kind is missing"),
        Refusal(more: ("ttl", "-1"), message: "ttl must be 0 to 2419200 seconds"),
        Refusal(more: ("ttl", "2419201"), message: "ttl must be 0 to 2419200 seconds"),
        Refusal(more: ("ttl", "2592000"), message: "ttl must be 0 to 2419200 seconds"),
        Refusal(more: ("send_at", "'infinity'"), message: "send_at is more than a year ahead"),
        Refusal(more: ("send_at", "now() + interval '2 years'"), message: "send_at is more than a year ahead"),
        Refusal(more: ("idempotency_key", "''"), message: "idempotency_key must be 1 to 255 characters"),
        Refusal(more: ("idempotency_key", "repeat('k', 256)"), message: "idempotency_key must be 1 to 255 characters"),
        Refusal(more: ("collapse_id", "repeat('c', 65)"), message: "collapse_id"),
        Refusal(more: ("throttle_per_second", "5"), message: "throttle_per_second is not supported by this version"),
        Refusal(more: ("local_time", "'09:00'"), message: "local_time is not supported by this version"),
    ]

    @Test(arguments: refusals)
    func `a job that cannot be sent is refused by the INSERT, which names the field`(refusal: Refusal) async throws {
        try await withSendFixture { (fixture) async throws in
            let columns = refusal.more.columns.isEmpty ? "" : ", " + refusal.more.columns
            let values = refusal.more.values.isEmpty ? "" : ", " + refusal.more.values
            let error = await #expect(throws: PostgresError.self) {
                try await fixture.query(
                    """
                    INSERT INTO peal.job (app, audience, content\(columns))
                    VALUES (\(refusal.app), $1::jsonb, $2::jsonb\(values))
                    """,
                    [.jsonb(refusal.audience), .jsonb(refusal.content)]
                )
            }
            #expect(error?.sqlState == "22023")
            #expect(error?.message.hasPrefix(refusal.message) == true, "\(error?.message ?? "no error")")
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 0)
        }
    }

    @Test func `an audience of too many names is refused`() async throws {
        try await withSendFixture { (fixture) async throws in
            let error = await #expect(throws: PostgresError.self) {
                try await fixture.query(
                    """
                    INSERT INTO peal.job (app, audience, content)
                    SELECT 'shop', jsonb_build_object('external_ids', jsonb_agg(n::text)), '{"title": "x"}'
                    FROM generate_series(1, 100001) AS n
                    """
                )
            }
            #expect(error?.message.hasPrefix("audience.external_ids has 100001 entries, the limit is 100000") == true)
        }
    }

    @Test func `what a row leaves out is filled in`() async throws {
        try await withSendFixture { (fixture) async throws in
            let few = try await fixture.insertJob(audience: #"{"external_ids": ["a"]}"#)
            let all = try await fixture.insertJob(audience: #"{"all": true}"#)
            let rows = try await fixture.query(
                """
                SELECT lane, state, kind, on_doubt, ttl, expires_at - send_at = interval '3 days', queued_at IS NOT NULL
                FROM peal.job ORDER BY ctid
                """
            )
            #expect(try rows.text(0, 0) == "transactional")
            #expect(try rows.text(1, 0) == "campaign")
            for row in rows.indices {
                #expect(try rows.text(row, 1) == "available")
                #expect(try rows.text(row, 2) == "push")
                #expect(try rows.text(row, 3) == "resend")
                #expect(try rows.int64(row, 4) == 259_200)
                #expect(try rows.bool(row, 5))
                #expect(try rows.bool(row, 6))
            }
            #expect(few.value < all.value)
        }
    }

    @Test func `more than a thousand named recipients make a campaign`() async throws {
        try await withSendFixture { (fixture) async throws in
            for count in [1_000, 1_001] {
                try await fixture.query(
                    """
                    INSERT INTO peal.job (app, audience, content)
                    SELECT 'shop', jsonb_build_object('external_ids', jsonb_agg(n::text)), '{"title": "x"}'
                    FROM generate_series(1, $1) AS n
                    """,
                    [.int64(Int64(count))]
                )
            }
            #expect(
                try await fixture.text("SELECT string_agg(lane, ' ' ORDER BY ctid) FROM peal.job")
                    == "transactional campaign"
            )
        }
    }

    @Test func `a time in the past means now, one ahead is scheduled, and a ttl of 0 leaves half a minute`()
        async throws
    {
        try await withSendFixture { (fixture) async throws in
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content, send_at, ttl) VALUES
                    ('shop', '{"all": true}', '{"title": "x"}', now() - interval '1 day', 60),
                    ('shop', '{"all": true}', '{"title": "x"}', now() + interval '1 day', 60),
                    ('shop', '{"all": true}', '{"title": "x"}', NULL, 0)
                """
            )
            #expect(
                try await fixture.text("SELECT string_agg(state, ' ' ORDER BY ctid) FROM peal.job")
                    == "available scheduled available"
            )
            #expect(
                try await fixture.text(
                    "SELECT string_agg((expires_at - send_at)::text, ' ' ORDER BY ctid) FROM peal.job"
                )
                    == "00:01:00 00:01:00 00:00:30"
            )
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE send_at >= queued_at") == 3)
        }
    }

    @Test func `case 19: the longest ttl is what FCM keeps, for a job and for an app`() async throws {
        try await withSendFixture { (fixture) async throws in
            let job = try await fixture.insertJob(audience: #"{"all": true}"#, ttl: 2_419_200)
            let kept = try await fixture.text(
                "SELECT expires_at - send_at FROM peal.job WHERE id = $1",
                [.job(job)]
            )
            #expect(kept == "28 days")
            let error = await #expect(throws: PostgresError.self) {
                try await fixture.query("UPDATE peal.app SET default_ttl = 2419201")
            }
            #expect(error?.message.contains("app_default_ttl_range") == true)
        }
    }

    @Test func `cases 156 and 160: the zone that is written counts, not the server's`() async throws {
        try await withSendFixture { (fixture) async throws in
            try await fixture.connection.execute("SET timezone = 'Asia/Tokyo'")
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content, send_at) VALUES
                    ('shop', '{"all": true}', '{"title": "x"}', (date_trunc('day', now() AT TIME ZONE 'UTC') + interval '2 days')::text::timestamptz),
                    ('shop', '{"all": true}', '{"title": "x"}', ((now() AT TIME ZONE 'UTC')::date + 2 || 'T00:00:00Z')::timestamptz),
                    ('shop', '{"all": true}', '{"title": "x"}', ((now() AT TIME ZONE 'UTC')::date + 2 || 'T00:00:00+05:30')::timestamptz)
                """
            )
            let hours = try await fixture.text(
                "SELECT string_agg(extract(epoch FROM send_at - date_trunc('day', now(), 'UTC') - interval '2 days')::integer::text, ' ' ORDER BY ctid) FROM peal.job"
            )
            // Without a zone it is the session's: nine hours earlier in Tokyo.
            #expect(hours == "-32400 0 -19800")
        }
    }

    @Test func `case 170: an idempotency key makes one job, and a retry harmless`() async throws {
        try await withSendFixture { (fixture) async throws in
            let insert = """
                INSERT INTO peal.job (app, audience, content, idempotency_key)
                VALUES ($1, '{"all": true}', '{"title": "x"}', 'order-1')
                """
            try await fixture.query(insert, [.text("shop")])
            let error = await #expect(throws: PostgresError.self) { try await fixture.query(insert, [.text("shop")]) }
            #expect(error?.sqlState == .uniqueViolation)
            try await fixture.query(insert + " ON CONFLICT DO NOTHING", [.text("shop")])
            try await fixture.query(insert, [.text("talk")])
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 2)
        }
    }

    @Test func `case 170: of equal sends at the same moment one becomes a job`() async throws {
        try await withSendFixture { (fixture) async throws in
            let inserted = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        let connection = try await fixture.database.connect()
                        let insert = SQLStatement(
                            name: "test",
                            text: """
                                INSERT INTO peal.job (app, audience, content, idempotency_key)
                                VALUES ('shop', '{"all": true}', '{"title": "x"}', 'order-2')
                                ON CONFLICT DO NOTHING RETURNING id
                                """
                        )
                        let rows = try await connection.query(insert)
                        await connection.close()
                        return rows.count
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(inserted == 1)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 1)
        }
    }

    @Test func `a push rolled back with its order is not there`() async throws {
        try await withSendFixture { (fixture) async throws in
            try await fixture.connection.execute(
                #"BEGIN; INSERT INTO peal.job (app, audience, content) VALUES ('shop', '{"all": true}', '{"title": "x"}'); ROLLBACK"#
            )
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 0)
        }
    }

    @Test func `what is internal begins as it must, whatever the INSERT says`() async throws {
        try await withSendFixture { (fixture) async throws in
            let send = """
                'shop', '{"external_ids": ["a"]}', '{"title": "x"}', date_trunc('day', now()) + interval '2 days'
                """
            // Every column that no producer may write, with a value that a fresh row never has.
            let internals = try await fixture.query(
                """
                SELECT string_agg(quote_ident(c.column_name), ', '), string_agg(CASE c.data_type
                    WHEN 'timestamp with time zone' THEN $$'2001-02-03 04:05:06Z'$$
                    WHEN 'uuid' THEN 'gen_random_uuid()'
                    WHEN 'ARRAY' THEN $$'{7,8}'$$
                    ELSE $$'77'$$
                END, ', ')
                FROM information_schema.columns AS c
                WHERE c.table_schema = 'peal' AND c.table_name = 'job' AND NOT has_column_privilege(
                    'peal_producer', 'peal.job', c.column_name, 'INSERT'
                )
                """
            )
            let (names, values) = (try internals.text(0, 0), try internals.text(0, 1))
            #expect(names.split(separator: ",").count >= 23)
            try await fixture.query("INSERT INTO peal.job (app, audience, content, send_at) VALUES (\(send))")
            try await fixture.query(
                "INSERT INTO peal.job (app, audience, content, send_at, \(names)) VALUES (\(send), \(values))"
            )
            let differing = try await fixture.text(
                """
                SELECT string_agg(plain.key, ' ')
                FROM (SELECT to_jsonb(j) AS row FROM peal.job AS j ORDER BY j.ctid LIMIT 1) AS a
                CROSS JOIN (SELECT to_jsonb(j) AS row FROM peal.job AS j ORDER BY j.ctid DESC LIMIT 1) AS b
                CROSS JOIN LATERAL jsonb_each(a.row) AS plain
                WHERE plain.value <> b.row -> plain.key
                """
            )
            #expect(differing == "id queued_at")
            let young = "SELECT count(*) FROM peal.job WHERE queued_at > now() - interval '1 hour'"
            #expect(try await fixture.number(young) == 2)
        }
    }

    @Test func `an id of one's own is kept`() async throws {
        try await withSendFixture { (fixture) async throws in
            try await fixture.query(
                """
                INSERT INTO peal.job (id, app, audience, content)
                VALUES ('11111111-2222-4333-8444-555555555555', 'shop', '{"all": true}', '{"title": "x"}')
                """
            )
            #expect(try await fixture.text("SELECT id FROM peal.job") == "11111111-2222-4333-8444-555555555555")
        }
    }

    @Test(arguments: [0, 1, 0x1122_3344_5566, Int64.max])
    func `the apns-id of a message follows from job and device`(device: Int64) async throws {
        try await withSendFixture { (fixture) async throws in
            let job = try #require(UUIDValue("01234567-89ab-7def-8123-456789abcdef"))
            let expected = UUIDValue(high: job.high, low: job.low ^ UInt64(device))
            let id = try await fixture.text("SELECT peal.apns_id($1, $2)", [.uuid(job), .int64(device)])
            #expect(id == expected.description)
        }
    }
}
