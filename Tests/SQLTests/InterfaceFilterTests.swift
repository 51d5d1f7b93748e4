import Postgres
import PushCore
import TestSupport
import Testing

/// What filters select, what they refuse, and that no value of theirs is ever SQL.
@Suite struct InterfaceFilterTests {
    /// Devices whose numbers the filters below are to find.
    private func withDevices(_ body: (SendFixture) async throws -> Void) async throws {
        try await withSendFixture { (fixture) async throws in
            let devices = [
                #"{"channel": "ios", "token": "aa01", "external_id": "anna", "tags": {"city": "izmir", "age": 30, "vip": true}, "locale": "tr-TR", "app_version": "9.9"}"#,
                #"{"channel": "ios", "token": "aa02", "external_id": "bela", "environment": "sandbox", "tags": {"city": "ankara", "age": "30"}, "locale": "tr", "app_version": "10.2"}"#,
                #"{"channel": "android", "token": "fcm-3", "tags": {"city": "izmir", "age": 7.5}, "locale": "de_DE", "app_version": "10.2.1"}"#,
                #"{"channel": "android", "token": "fcm-4", "external_id": "d'Or", "tags": {"it's": "o\"k", "vip": false}, "model": "Pixel; DROP TABLE"}"#,
            ]
            for device in devices {
                try await fixture.query("SELECT peal.register_device('shop', $1)", [.jsonb(device)])
            }
            try await body(fixture)
        }
    }

    private func matching(_ fixture: SendFixture, _ filter: String) async throws -> String {
        let condition = try #require(try await fixture.text("SELECT peal.filter_condition($1)", [.jsonb(filter)]))
        return try await fixture.text(
            "SELECT coalesce(string_agg(d.id::text, ' ' ORDER BY d.id), '') FROM peal.device AS d WHERE \(condition)"
        ) ?? ""
    }

    @Test func `filters select by fields, tags and operators`() async throws {
        let cases: [(filter: String, ids: String)] = [
            (#"{"tag.city": "izmir"}"#, "1 3"),
            (#"{"tag.city": {"ne": "izmir"}}"#, "2 4"),
            (#"{"tag.city": {"in": ["izmir", "ankara"]}}"#, "1 2 3"),
            (#"{"tag.city": {"exists": false}}"#, "4"),
            (#"{"tag.vip": true}"#, "1"),
            (#"{"tag.vip": {"exists": true}}"#, "1 4"),
            (#"{"tag.age": 30}"#, "1"),
            (#"{"tag.age": "30"}"#, "2"),
            (#"{"tag.age": {"gte": 7.5}}"#, "1 3"),
            (#"{"tag.age": {"gt": 7.5, "lt": 31}}"#, "1"),
            (#"{"tag.city": {"prefix": "iz"}}"#, "1 3"),
            (#"{"tag.city": {"gt": "ankara"}}"#, "1 3"),
            (#"{"channel": "ios"}"#, "1 2"),
            (#"{"environment": "sandbox"}"#, "2"),
            (#"{"language": "tr"}"#, "1 2"),
            (#"{"language": "DE"}"#, "3"),
            (#"{"external_id": {"in": ["anna", "d'Or"]}}"#, "1 4"),
            (#"{"app_version": {"gt": "9.10"}}"#, "2 3"),
            (#"{"app_version": {"lte": "10.2"}}"#, "1 2"),
            (#"{"registered_at": {"gt": "2020-01-01T00:00:00Z"}}"#, "1 2 3 4"),
            (#"{"created_at": {"lt": "2020-01-01T00:00:00Z"}}"#, ""),
            (#"{"not": {"tag.city": "izmir"}}"#, "2 4"),
            (#"{"any": [{"tag.city": "ankara"}, {"tag.vip": false}]}"#, "2 4"),
            (#"{"all": [{"channel": "ios"}, {"tag.city": "izmir"}]}"#, "1"),
            (#"{"channel": "ios", "not": {"any": [{"tag.vip": true}]}}"#, "2"),
        ]
        try await withDevices { (fixture) async throws in
            for example in cases {
                let ids = try await matching(fixture, example.filter)
                #expect(ids == example.ids, "\(example.filter)")
            }
        }
    }

    @Test func `no value and no key of a filter is ever SQL`() async throws {
        let cases: [(filter: String, ids: String)] = [
            (#"{"external_id": "'; DROP TABLE peal.device; --"}"#, ""),
            (#"{"external_id": "d'Or"}"#, "4"),
            (#"{"external_id": "' OR 'a' = 'a"}"#, ""),
            (#"{"external_id": {"prefix": "%"}}"#, ""),
            (#"{"external_id": {"in": ["x'); DELETE FROM peal.device; --"]}}"#, ""),
            (#"{"tag.it's": "o\"k"}"#, "4"),
            (#"{"tag.it's": {"exists": true}}"#, "4"),
            (#"{"tag.') IS NOT NULL OR ('1": "1"}"#, ""),
            (#"{"tag.a') OR true OR ('": {"gt": 1}}"#, ""),
            (#"{"tag.\\": "\\'; DROP TABLE peal.device; --"}"#, ""),
            (#"{"tag.$1": {"gt": "$2"}}"#, ""),
            (#"{"tag.%s%L%I": "%s"}"#, ""),
            (#"{"model": "Pixel; DROP TABLE"}"#, "4"),
            (#"{"model": {"gt": "P'i"}}"#, "4"),
        ]
        try await withDevices { (fixture) async throws in
            for example in cases {
                let ids = try await matching(fixture, example.filter)
                #expect(ids == example.ids, "\(example.filter)")
            }
            #expect(try await fixture.number("SELECT count(*) FROM peal.device") == 4)
        }
    }

    @Test(arguments: [
        (#"{"d.id": "1"}"#, "filter.d.id is not known"),
        (#"{"id; DROP TABLE peal.device": "1"}"#, "filter.id; DROP TABLE peal.device is not known"),
        (#"{"tag.": "1"}"#, "filter.tag. names no tag"),
        (#"{"tag.a": {"contains": "x"}}"#, "filter.tag.a.contains is not known"),
        (#"{"tag.a": {"gtr": 1}}"#, "filter.tag.a.gtr is not known (did you mean gt?)"),
        (#"{"tag.a": {}}"#, "filter.tag.a names no operator"),
        (#"{"tag.a": null}"#, "filter.tag.a must be text, a number or true or false, found null"),
        (#"{"tag.a": [1]}"#, "filter.tag.a must be text, a number or true or false, found array"),
        (#"{"tag.a": {"in": []}}"#, "filter.tag.a.in must be an array of 1 to 1000 values"),
        (#"{"tag.a": {"exists": 1}}"#, "filter.tag.a.exists must be true or false, found number"),
        (#"{"tag.a": {"gt": true}}"#, "filter.tag.a.gt cannot compare true or false by order"),
        (#"{"tag.a": {"prefix": 1}}"#, "filter.tag.a.prefix works on text alone"),
        (#"{"channel": 1}"#, "filter.channel must be text, found number"),
        (#"{"registered_at": {"gt": "yesterday'; --"}}"#, "filter.registered_at.gt is not a time"),
        (#"{"any": []}"#, "filter.any must be an array of 1 to 200 filters"),
        (#"{"not": []}"#, "filter.not must be an object, found array"),
        (#"{"not": {}}"#, "filter.not is empty"),
        ("[]", "filter must be an object, found array"),
    ])
    func `a filter that is wrong is refused with its path`(filter: String, message: String) async throws {
        try await withSendFixture { (fixture) async throws in
            let error = await #expect(throws: PostgresError.self) {
                try await fixture.query("SELECT peal.filter_condition($1)", [.jsonb(filter)])
            }
            #expect(error?.sqlState == "22023")
            #expect(error?.message == message)
        }
    }

    /// Values that no device can have, and what is said of them below the path of the filter.
    static let impossible: [(filter: String, message: String)] = [
        (#"{"environment": "prodction"}"#, #".environment must be production or sandbox, found "prodction""#),
        (#"{"channel": "web"}"#, #".channel must be ios or android, found "web""#),
        (#"{"channel": {"eq": "iOS"}}"#, #".channel.eq must be ios or android, found "iOS""#),
        (#"{"channel": {"ne": "web"}}"#, #".channel.ne must be ios or android, found "web""#),
        (#"{"channel": {"in": ["ios", "web"]}}"#, #".channel.in must be ios or android, found "web""#),
        (#"{"channel": {"gte": "web"}}"#, #".channel.gte must be ios or android, found "web""#),
        (#"{"channel": {"prefix": "web"}}"#, #".channel.prefix must begin ios or android, found "web""#),
        (#"{"not": {"channel": "web"}}"#, #".not.channel must be ios or android, found "web""#),
        (
            #"{"any": [{"channel": "ios"}, {"all": [{"environment": ""}]}]}"#,
            #".any[1].all[0].environment must be production or sandbox, found """#
        ),
        (#"{"created_at": "now"}"#, #".created_at must be a time with its offset, found "now""#),
        (#"{"created_at": {"gt": "yesterday"}}"#, #".created_at.gt must be a time with its offset, found "yesterday""#),
        (
            #"{"registered_at": {"lt": "2026-01-01"}}"#,
            #".registered_at.lt must be a time with its offset, found "2026-01-01""#
        ),
        (
            #"{"registered_at": {"in": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00"]}}"#,
            #".registered_at.in must be a time with its offset, found "2026-01-01T00:00:00""#
        ),
        (
            #"{"registered_at": {"lt": "2026-01-01T24:00:00Z"}}"#,
            #".registered_at.lt must be a time with its offset, found "2026-01-01T24:00:00Z""#
        ),
        (#"{"app_version": {"gt": "abc"}}"#, #".app_version.gt must be numbers with dots between them, found "abc""#),
        (#"{"os_version": {"lte": "17.x"}}"#, #".os_version.lte must be numbers with dots between them, found "17.x""#),
    ]

    @Test(arguments: impossible)
    func `a value that no device can have is refused in a segment and in an audience`(
        filter: String,
        message: String
    ) async throws {
        try await withSendFixture { (fixture) async throws in
            let segment = "INSERT INTO peal.segment SELECT id, 'bad', $1 FROM peal.app WHERE slug = 'shop'"
            let ofSegment = await #expect(throws: PostgresError.self) {
                try await fixture.query(segment, [.jsonb(filter)])
            }
            #expect(ofSegment?.sqlState == "22023")
            #expect(ofSegment?.message == "filter" + message)
            let ofAudience = await #expect(throws: PostgresError.self) {
                try await fixture.insertJob(audience: #"{"filter": \#(filter)}"#)
            }
            #expect(ofAudience?.sqlState == "22023")
            #expect(ofAudience?.message == "audience.filter" + message)
        }
    }

    @Test(arguments: [
        #"{"channel": {"in": ["ios", "android"]}, "environment": {"ne": "sandbox"}}"#,
        #"{"channel": {"prefix": "andr"}, "environment": {"exists": false}}"#,
        #"{"created_at": {"gt": "2026-01-01T00:00:00Z", "lt": "2026-12-24 18:00:00.5+01:00"}}"#,
        #"{"registered_at": {"exists": true}}"#, #"{"app_version": "abc", "os_version": {"prefix": "b"}}"#,
        #"{"app_version": {"gt": "10.2", "ne": "beta"}}"#, #"{"tag.channel": "web", "tag.created_at": "now"}"#,
    ])
    func `what a device can have is taken`(filter: String) async throws {
        try await withSendFixture { (fixture) async throws in
            try await fixture.query(
                "INSERT INTO peal.segment SELECT id, 'good', $1 FROM peal.app WHERE slug = 'shop'",
                [.jsonb(filter)]
            )
            _ = try await fixture.insertJob(audience: #"{"filter": \#(filter)}"#)
        }
    }

    @Test func `a segment from before such values were refused is still sent to`() async throws {
        try await withSendFixture(devices: 3) { (fixture) async throws in
            try await fixture.query("ALTER TABLE peal.segment DISABLE TRIGGER check_segment")
            try await fixture.query(
                """
                INSERT INTO peal.segment SELECT id, 'old', '{"created_at": {"lt": "tomorrow"}, "not": {"channel": "web"}}'
                FROM peal.app WHERE slug = 'shop'
                """
            )
            try await fixture.query("ALTER TABLE peal.segment ENABLE TRIGGER check_segment")
            let reached = try await fixture.number(
                """
                SELECT sum(n)::bigint FROM peal.preview_audience('shop', '{"segments": ["old"]}')
                WHERE skipped_reason IS NULL
                """
            )
            #expect(reached == 3)
            _ = try await fixture.insertJob(audience: #"{"segments": ["old"]}"#)
        }
    }

    @Test func `a segment with a bad filter is refused when it is written`() async throws {
        try await withSendFixture { (fixture) async throws in
            let error = await #expect(throws: PostgresError.self) {
                try await fixture.query(
                    "INSERT INTO peal.segment SELECT id, 'bad', '{\"city\": 1}' FROM peal.app WHERE slug = 'shop'"
                )
            }
            #expect(error?.sqlState == "22023")
        }
    }

    @Test func `nesting has an end`() async throws {
        try await withSendFixture { (fixture) async throws in
            let deep =
                String(repeating: #"{"not": "#, count: 9) + #"{"channel": "ios"}"# + String(repeating: "}", count: 9)
            let error = await #expect(throws: PostgresError.self) {
                try await fixture.query("SELECT peal.filter_condition($1)", [.jsonb(deep)])
            }
            #expect(error?.message.hasSuffix("is nested more than 8 deep") == true)
        }
    }
}
