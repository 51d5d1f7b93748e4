import Postgres
import PushCore
import TestSupport
import Testing

/// Registration beyond the cases of `TokenTests`: what identifies a device, and what a registration changes.
@Suite struct InterfaceDeviceTests {
    private func register(_ fixture: SendFixture, _ device: String, app: String = "shop") async throws -> Int64 {
        try await fixture.number("SELECT peal.register_device($1, $2)", [.text(app), .jsonb(device)])
    }

    private func unregister(_ fixture: SendFixture, _ device: String) async throws -> Int64 {
        try await fixture.number("SELECT peal.unregister_device('shop', $1)", [.jsonb(device)])
    }

    private func refusal(_ body: () async throws -> Int64) async throws -> String? {
        let error = await #expect(throws: PostgresError.self) { _ = try await body() }
        #expect(error?.sqlState == "22023")
        return error?.message
    }

    @Test func `an installation keeps its device when its token changes`() async throws {
        try await withSendFixture { (fixture) async throws in
            let first = try await register(fixture, #"{"channel": "android", "token": "old", "installation_id": "i1"}"#)
            let second = try await register(
                fixture,
                #"{"channel": "android", "token": "new", "installation_id": "i1"}"#
            )
            #expect(first == second)
            #expect(try await fixture.text("SELECT string_agg(token, ' ') FROM peal.device") == "new")
        }
    }

    @Test func `a token keeps its device when another installation brings it, whose own is removed`() async throws {
        try await withSendFixture { (fixture) async throws in
            let holder = try await register(fixture, #"{"channel": "android", "token": "t1", "installation_id": "i1"}"#)
            _ = try await register(fixture, #"{"channel": "android", "token": "t2", "installation_id": "i2"}"#)
            let moved = try await register(fixture, #"{"channel": "android", "token": "t1", "installation_id": "i2"}"#)
            #expect(moved == holder)
            #expect(
                try await fixture.text("SELECT string_agg(token || ' ' || installation_id, ',') FROM peal.device")
                    == "t1 i2"
            )
        }
    }

    @Test func `a key that is left out keeps its value, null clears it, a token enables`() async throws {
        try await withSendFixture { (fixture) async throws in
            let full =
                #"{"channel": "ios", "token": "aabb", "tags": {"a": 1}, "locale": "tr-TR", "external_id": "anna"}"#
            let id = try await register(fixture, full)
            try await fixture.query("UPDATE peal.device SET disabled_at = now(), disabled_reason = 'Unregistered'")
            _ = try await register(fixture, #"{"channel": "ios", "token": "aabb", "locale": null}"#)
            let row = try await fixture.text(
                """
                SELECT concat_ws('|', tags, coalesce(locale, '-'), external_id, coalesce(disabled_reason, '-'))
                FROM peal.device WHERE id = $1
                """,
                [.int64(id)]
            )
            #expect(row == #"{"a": 1}|-|anna|-"#)
        }
    }

    @Test func `a voip token moves to the device that brings it, and leaves a device that had nothing else`()
        async throws
    {
        try await withSendFixture { (fixture) async throws in
            let first = try await register(fixture, #"{"channel": "ios", "token": "aa", "voip_token": "0f"}"#)
            _ = try await register(fixture, #"{"channel": "ios", "voip_token": "0e", "installation_id": "i2"}"#)
            let second = try await register(fixture, #"{"channel": "ios", "token": "bb", "voip_token": "0F"}"#)
            _ = try await register(fixture, #"{"channel": "ios", "token": "bb", "voip_token": "0e"}"#)
            #expect(first != second)
            #expect(
                try await fixture.text(
                    "SELECT string_agg(token || coalesce(voip_token, '-'), ' ' ORDER BY id) FROM peal.device"
                ) == "aa- bb0e"
            )
        }
    }

    @Test func `the route follows channel and environment`() async throws {
        try await withSendFixture { (fixture) async throws in
            for device in [
                #"{"channel": "ios", "token": "aa"}"#, #"{"channel": "ios", "token": "bb", "environment": "sandbox"}"#,
                #"{"channel": "android", "token": "x"}"#,
            ] {
                _ = try await register(fixture, device)
            }
            #expect(try await fixture.text("SELECT string_agg(route::text, '' ORDER BY id) FROM peal.device") == "123")
        }
    }

    @Test(arguments: [
        (#"{"token": "aa"}"#, #"device.channel must be ios or android, found """#),
        (#"{"channel": "web", "token": "aa"}"#, #"device.channel must be ios or android, found "web""#),
        (#"{"channel": "ios"}"#, "device.token is missing"),
        (#"{"channel": "ios", "token": ""}"#, "device.token must be text that is not empty"),
        (#"{"channel": "ios", "token": 12}"#, "device.token must be text that is not empty"),
        (#"{"channel": "ios", "token": "aa", "tag": {}}"#, "device.tag is not known (did you mean tags?)"),
        (#"{"channel": "ios", "token": "aa", "tags": []}"#, "device.tags must be an object"),
        (
            #"{"channel": "ios", "token": "aa", "environment": "test"}"#,
            "device.environment must be production or sandbox"
        ),
        (#"{"channel": "android", "token": "t", "voip_token": "aa"}"#, "device.voip_token belongs to ios alone"),
        (
            #"{"channel": "android", "token": "a b"}"#,
            "device.token is no FCM token: it must be 1 to 4096 printable characters"
        ),
        (
            #"{"channel": "ios", "token": "aa", "timezone": "Mars/Base"}"#,
            #"timezone must be an IANA name such as Europe/Berlin, found "Mars/Base""#
        ),
        (
            #"{"channel": "ios", "token": "aa", "timezone": "EST5'; DROP"}"#,
            #"timezone must be an IANA name such as Europe/Berlin, found "EST5'; DROP""#
        ),
        ("[]", "device must be an object"),
    ])
    func `a registration that is wrong is refused with its field`(device: String, message: String) async throws {
        try await withSendFixture { (fixture) async throws in
            #expect(try await refusal { try await register(fixture, device) } == message)
            #expect(try await fixture.number("SELECT count(*) FROM peal.device") == 0)
        }
    }

    @Test func `devices are removed by exactly one identifier, of the app that is named`() async throws {
        try await withSendFixture(devices: 10) { (fixture) async throws in
            try await fixture.query("UPDATE peal.device SET external_id = 'anna' WHERE id <= 3")
            _ = try await register(
                fixture,
                #"{"channel": "android", "token": "other", "external_id": "anna"}"#,
                app: "talk"
            )
            #expect(try await unregister(fixture, #"{"external_id": "anna"}"#) == 3)
            #expect(try await unregister(fixture, #"{"external_id": "anna"}"#) == 0)
            #expect(try await unregister(fixture, #"{"device_id": "4"}"#) == 1)
            #expect(try await unregister(fixture, #"{"token": "fcm-7", "channel": "android"}"#) == 1)
            #expect(try await fixture.number("SELECT count(*) FROM peal.device") == 6)
            for device in [#"{"device_id": "5", "external_id": "x"}"#, #"{"channel": "ios"}"#, #"{"token": "aa"}"#] {
                _ = try await refusal { try await unregister(fixture, device) }
            }
        }
    }
}
