import Postgres
import PushCore
import TestSupport
import Testing

/// What becomes of the tokens that apps bring, from faults seen in the field.
@Suite struct TokenTests {
    private static let token = String(repeating: "ab", count: 32)

    /// Runs a body with a database that has the apps `shop` and `talk`.
    private func withApps(_ body: (TestDatabase, PostgresConnection) async throws -> Void) async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await query(connection, "INSERT INTO peal.app (slug) VALUES ('shop'), ('talk')", [])
            try await body(database, connection)
        }
    }

    private func query(
        _ connection: PostgresConnection,
        _ text: String,
        _ parameters: PostgresParameters
    ) async throws -> PostgresRows {
        try await connection.query(SQLStatement(name: "token_test", text: text), parameters)
    }

    private func register(
        _ connection: PostgresConnection,
        app: String = "shop",
        _ device: String
    ) async throws -> Int64 {
        try await query(connection, "SELECT peal.register_device($1, $2::jsonb)", [.text(app), .text(device)]).int64(
            0,
            0
        )
    }

    private func register(
        ios token: String,
        _ connection: PostgresConnection,
        app: String = "shop"
    ) async throws -> Int64 {
        try await register(connection, app: app, #"{"channel":"ios","token":"\#(token)"}"#)
    }

    private func unregister(_ device: String, _ connection: PostgresConnection) async throws -> Int32 {
        try await query(connection, "SELECT peal.unregister_device('shop', $1::jsonb)", [.text(device)]).int32(0, 0)
    }

    /// How many devices of `shop` an audience would reach.
    private func reached(_ audience: String, _ connection: PostgresConnection) async throws -> Int64 {
        try await query(
            connection,
            """
            SELECT coalesce(sum(n), 0)::bigint FROM peal.preview_audience('shop', $1::jsonb) WHERE skipped_reason IS NULL
            """,
            [.text(audience)]
        ).int64(0, 0)
    }

    /// The message of a refusal, which must be about a bad value.
    private func refusal(_ body: () async throws -> some Any) async throws -> String {
        let error = await #expect(throws: PostgresError.self) { _ = try await body() }
        let refused = try #require(error)
        #expect(refused.sqlState == "22023")
        return refused.message
    }

    private func deviceCount(_ connection: PostgresConnection, where condition: String = "true") async throws -> Int64 {
        try await query(connection, "SELECT count(*) FROM peal.device WHERE \(condition)", []).int64(0, 0)
    }

    @Test(arguments: [
        String(repeating: "AB", count: 32),
        "<" + Array(repeating: "abababab", count: 8).joined(separator: " ") + ">",
    ])
    func `cases 27 and 30: other spellings of a token are the same device`(spelling: String) async throws {
        try await withApps { _, connection in
            let first = try await register(ios: Self.token, connection)
            #expect(try await register(ios: spelling, connection) == first)
            #expect(try await deviceCount(connection, where: "token = '\(Self.token)'") == 1)
            #expect(try await deviceCount(connection) == 1)
            #expect(try await unregister(#"{"channel":"ios","token":"\#(spelling)"}"#, connection) == 1)
            #expect(try await deviceCount(connection) == 0)
        }
    }

    @Test func `case 32: tokens of any even length are taken, an odd one is refused`() async throws {
        try await withApps { _, connection in
            for length in [64, 108, 160, 200] {
                _ = try await register(ios: String(repeating: "a", count: length), connection)
            }
            #expect(try await deviceCount(connection) == 4)
            let message = try await refusal {
                try await register(ios: String(repeating: "a", count: 63), connection)
            }
            #expect(message.hasPrefix("device.token"))
            #expect(!message.contains("aaaa"))
        }
    }

    @Test func `case 34: a token of the other channel is refused and not repeated in the error`() async throws {
        try await withApps { _, connection in
            let message = try await refusal {
                try await register(ios: "APA91b_-Qx" + String(repeating: "z", count: 130), connection)
            }
            #expect(message.hasPrefix("device.token"))
            #expect(!message.contains("APA91b"))
            #expect(try await deviceCount(connection) == 0)
        }
    }

    @Test func `case 36: a true token replaces a made-up one on the same installation`() async throws {
        try await withApps { _, connection in
            let madeUp = #"{"channel":"ios","installation_id":"i1","token":"\#(String(repeating: "0f", count: 32))"}"#
            let first = try await register(connection, madeUp)
            _ = try await query(
                connection,
                "UPDATE peal.device SET disabled_at = now(), disabled_reason = 'BadDeviceToken' WHERE id = $1",
                [.int64(first)]
            )
            let genuine = #"{"channel":"ios","installation_id":"i1","token":"\#(Self.token)"}"#
            #expect(try await register(connection, genuine) == first)
            #expect(try await deviceCount(connection, where: "token = '\(Self.token)' AND disabled_at IS NULL") == 1)
            #expect(try await deviceCount(connection) == 1)
        }
    }

    @Test func `case 37: twenty equal registrations at once give one device`() async throws {
        try await withApps { database, connection in
            let ids = try await withThrowingTaskGroup(of: Int64.self) { group in
                for _ in 0..<20 {
                    group.addTask { try await register(ios: Self.token, try await database.connect()) }
                }
                return try await group.reduce(into: Set<Int64>()) { $0.insert($1) }
            }
            #expect(ids.count == 1)
            #expect(try await deviceCount(connection) == 1)
        }
    }

    @Test func `case 38: one token in two apps is two devices`() async throws {
        try await withApps { _, connection in
            let shop = try await register(ios: Self.token, connection)
            let talk = try await register(ios: Self.token, connection, app: "talk")
            #expect(shop != talk)
            #expect(try await unregister(#"{"channel":"ios","token":"\#(Self.token)"}"#, connection) == 1)
            #expect(try await deviceCount(connection) == 1)
            #expect(try await deviceCount(connection, where: "id = \(talk)") == 1)
        }
    }

    @Test func `case 40: a token belongs to the user who brought it last`() async throws {
        try await withApps { _, connection in
            for user in ["u-anna", "u-bela"] {
                _ = try await register(
                    connection,
                    #"{"channel":"ios","token":"\#(Self.token)","external_id":"\#(user)"}"#
                )
            }
            #expect(try await deviceCount(connection) == 1)
            #expect(try await reached(#"{"external_ids":["u-anna"]}"#, connection) == 0)
            #expect(try await reached(#"{"external_ids":["u-bela"]}"#, connection) == 1)
        }
    }

    @Test(arguments: [
        #"{"installation_id":"(null)"}"#, #"{"installation_id":""}"#, #"{}"#, #"{"device_id":"(null)"}"#,
        #"{"external_id":"(null)"}"#, #"{"external_id":null}"#, #"{"channel":"ios","token":"(null)"}"#,
    ])
    func `case 42: an identifier that names nothing removes nothing`(device: String) async throws {
        try await withApps { _, connection in
            _ = try await register(ios: Self.token, connection)
            _ = try await refusal { try await unregister(device, connection) }
            #expect(try await deviceCount(connection) == 1)
        }
    }

    /// Two phones that both send the word would become one device, and one of them would hear nothing any more.
    @Test(arguments: ["token", "external_id", "installation_id"], ["(null)", "<null>", "null", "Undefined"])
    func `cases 34 and 42: a word in place of an identifier is refused`(key: String, word: String) async throws {
        try await withApps { _, connection in
            let message = try await refusal {
                try await register(connection, #"{"channel":"android","token":"a","\#(key)":"\#(word)"}"#)
            }
            #expect(message == #"device.\#(key) is the word "\#(word)""#)
            #expect(try await deviceCount(connection) == 0)
        }
    }

    @Test func `case 43: after logging out a device is still there but belongs to nobody`() async throws {
        try await withApps { _, connection in
            let device = #"{"channel":"ios","token":"\#(Self.token)","external_id":"u-cyra"}"#
            let id = try await register(connection, device)
            let loggedOut = #"{"channel":"ios","token":"\#(Self.token)","external_id":null}"#
            #expect(try await register(connection, loggedOut) == id)
            #expect(try await deviceCount(connection, where: "external_id IS NULL") == 1)
            #expect(try await reached(#"{"external_ids":["u-cyra"]}"#, connection) == 0)
            #expect(try await reached(#"{"all":true}"#, connection) == 1)
        }
    }

    @Test func `ids too long for an index are refused by name`() async throws {
        try await withApps { _, connection in
            let id = String(repeating: "x", count: 1_025)
            for key in ["external_id", "installation_id"] {
                let message = try await refusal {
                    try await register(connection, #"{"channel":"android","token":"a","\#(key)":"\#(id)"}"#)
                }
                #expect(message == "device.\(key) is longer than 1024 bytes")
            }
        }
    }

    @Test func `an installation that goes over to android loses its VoIP token`() async throws {
        try await withApps { _, connection in
            let ios = #"{"channel":"ios","token":"aa","voip_token":"bb","installation_id":"i"}"#
            let device = try await register(connection, ios)
            #expect(
                try await register(connection, #"{"channel":"android","token":"a","installation_id":"i"}"#) == device
            )
            #expect(try await deviceCount(connection, where: "voip_token IS NULL AND channel = 'android'") == 1)
        }
    }
}
