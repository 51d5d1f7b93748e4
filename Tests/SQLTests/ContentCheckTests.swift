import Delivery
import Postgres
import PushCore
import TestSupport
import Testing

/// The rules of content stand in Swift and in SQL: one table of cases for both.
@Suite struct ContentCheckTests {
    private func query(
        _ connection: PostgresConnection,
        _ text: String,
        _ parameters: PostgresParameters
    ) async throws -> PostgresRows {
        try await connection.query(SQLStatement(name: "content_check_test", text: text), parameters)
    }

    /// What SQL says to a content: its error, or nil.
    private func refusal(
        _ connection: PostgresConnection,
        _ function: String,
        _ parameters: PostgresParameters
    ) async throws -> String? {
        do {
            _ = try await query(connection, "SELECT \(function)", parameters)
            return nil
        } catch let error as PostgresError {
            #expect(error.sqlState == "22023")
            return error.message
        }
    }

    @Test func `SQL takes and refuses what Swift does, with the same words`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            for example in ContentCase.accepted + ContentCase.refused {
                let refusal = try await refusal(
                    connection,
                    "peal.check_content($1, $2::jsonb)",
                    [.text(example.kind), .text(example.json)]
                )
                #expect(refusal == example.refusal, "\(example)")
            }
        }
    }

    @Test func `cases 21 and 186: SQL judges collapse ids as Swift does`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            for example in CollapseCase.all {
                let refusal = try await refusal(connection, "peal.check_collapse_id($1)", [.text(example.text)])
                #expect(refusal == example.problem.map { "collapse_id \($0)" })
            }
            #expect(try await refusal(connection, "peal.check_collapse_id($1)", [.text(nil)]) == nil)
        }
    }

    @Test(arguments: [nil, #"c "q" \"#])
    func `SQL renders and measures what Swift sends`(collapseID: String?) async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            for example in ContentCase.accepted where example.kind == "push" {
                // As the sender gets it: in jsonb's spelling.
                let stored = try await query(connection, "SELECT $1::jsonb::text", [.text(example.json)]).text(0, 0)
                let content = try Content.parse(JSONValue.parse(stored))
                let settings = MessageSettings(expiration: .at(epochSeconds: 0), collapseID: collapseID)
                let apns = NotificationTemplates(content, provider: .apns(bundleID: "x"), settings: settings)
                let fcm = NotificationTemplates(content, provider: .fcm(validateOnly: false), settings: settings)
                let measured = try await query(
                    connection,
                    """
                    SELECT peal.payload_bytes($1::jsonb, 'apns', $2), peal.payload_bytes($1::jsonb, 'fcm', $2),
                        peal.apns_payload($1::jsonb) IS NOT DISTINCT FROM $3::jsonb,
                        peal.fcm_message($1::jsonb, $2) IS NOT DISTINCT FROM ($4::jsonb -> 'message') - 'token'
                    """,
                    [.text(stored), .text(collapseID), .text(body(apns)), .text(body(fcm))]
                )
                #expect(try measured.int32OrNil(0, 0) == payloadBytes(apns), "\(example)")
                #expect(try measured.int32OrNil(0, 1) == payloadBytes(fcm), "\(example)")
                #expect(try measured.bool(0, 2), "\(example)")
                #expect(try measured.bool(0, 3), "\(example)")
            }
        }
    }

    @Test func `no payload is longer than twice its content and 600 bytes, as an INSERT trusts`() async throws {
        func repeated(_ text: String) -> String { Array(repeating: text, count: 300).joined(separator: ",") }
        let worst = [
            #"{"data":{"a":[\#(repeated(#""""#))]}}"#, #"{"data":{"a":[\#(repeated(#""\\""#))]}}"#,
            #"{"data":{"a":[\#(repeated(#""\"""#))]}}"#, #"{"data":{"a":[\#(repeated(#""\u0001""#))]}}"#,
            #"{"data":{"a":{"b":{\#((100..<400).map { "\"\($0)\":1" }.joined(separator: ","))}}}}"#,
            #"{"data":{\#((100..<400).map { "\"\($0)\":1" }.joined(separator: ","))}}"#,
            #"{"data":{"a":1e900}}"#, #"{"title":"t","fcm":{"data":{"a":"\#(String(repeating: "\\n", count: 400))"}}}"#,
            #"{"title":"t","actions":[\#((1...3).map { #"{"id":"\#($0)","title":"\"\"\"\""}"# }.joined(separator: ","))]}"#,
        ]
        try await withDatabase { database in
            let connection = try await database.connect()
            for json in worst + ContentCase.accepted.filter({ $0.kind == "push" }).map(\.json) {
                let rows = try await query(
                    connection,
                    """
                    SELECT peal.check_content('push', $1::jsonb), 2 * octet_length($1::jsonb::text) + 600
                        >= greatest(peal.payload_bytes($1::jsonb, 'apns', $2), peal.payload_bytes($1::jsonb, 'fcm', $2))
                    """,
                    [.text(json), .text(String(repeating: "\"", count: 64))]
                )
                #expect(try rows.bool(0, 1), "\(json.prefix(60))")
            }
        }
    }

    /// The body in the default language, or nil where there is nothing to send.
    private func body(_ templates: NotificationTemplates) -> String? {
        guard let template = templates.all.first, template.fault != .nothingToSend else { return nil }
        return String(decoding: template.renderBody(token: [], secondsLeft: .max), as: UTF8.self)
    }

    private func payloadBytes(_ templates: NotificationTemplates) -> Int32? {
        let sizes = templates.all.filter { $0.fault != .nothingToSend }.map { Int32($0.payloadBytes) }
        return sizes.max()
    }

    /// A content that an INSERT takes or refuses for its size, for one channel.
    private struct SizeCase {
        let channel: String
        let content: String
        let refusal: String?

        init(_ channel: String, _ content: String, bytes: Int? = nil) {
            self.channel = channel
            self.content = content
            let provider = channel == "ios" ? "apns" : "fcm"
            refusal = bytes.map { "content: its \(provider) payload would be \($0) bytes, the limit is 4096" }
        }
    }

    private static let sizes: [SizeCase] = {
        let apns = #"{"aps":{"alert":{"body":""}}}"#.utf8.count
        let fcm = #"{"notification":{"body":""},"android":{"ttl":"2419200s","priority":"HIGH"}}"#.utf8.count
        func body(_ character: String, _ count: Int) -> String {
            #"{"body":"\#(String(repeating: character, count: count))"}"#
        }
        func title(_ count: Int) -> String { #"{"title":"\#(String(repeating: "T", count: count))","body":"ok"}"# }
        return [
            SizeCase("ios", body("A", 4_096 - apns)), SizeCase("ios", body("A", 4_097 - apns), bytes: 4_097),
            SizeCase("android", body("A", 4_096 - fcm)), SizeCase("android", body("A", 4_097 - fcm), bytes: 4_097),
            SizeCase("ios", body("🎉", 1_200), bytes: 4_829), SizeCase("android", body("🎉", 1_200), bytes: 4_875),
            SizeCase("ios", body("م", 1_300)), SizeCase("android", body("م", 1_300)),
            SizeCase("ios", title(4_050)), SizeCase("ios", title(4_055), bytes: 4_097),
            SizeCase("android", title(4_050), bytes: 4_138),
        ]
    }()

    @Test func `cases 1, 2, 4 and 6: an INSERT takes what fits in UTF-8 bytes of the whole payload`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await query(connection, "INSERT INTO peal.app (slug) VALUES ('shop')", [])
            let insert = "INSERT INTO peal.job (app, audience, content) VALUES ('shop', $1::jsonb, $2::jsonb)"
            for example in Self.sizes {
                var refusal: String?
                do {
                    let audience = #"{"all":true,"channels":["\#(example.channel)"]}"#
                    _ = try await query(connection, insert, [.text(audience), .text(example.content)])
                } catch let error as PostgresError {
                    refusal = error.message
                }
                #expect(refusal == example.refusal, "\(example.channel) \(example.content.prefix(40))")
            }
        }
    }

    @Test(arguments: [
        #"{"title":"a\u0000"}"#, #"{"title":"x","data":{"a\u0000":1}}"#,
    ])
    func `case 144: U+0000 does not get into the database`(json: String) async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let error = await #expect(throws: PostgresError.self) {
                _ = try await query(connection, "SELECT $1::jsonb", [.text(json)])
            }
            #expect(error?.sqlState == "22P05")
        }
    }

    @Test func `a content that is nested too deep or too large is refused`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            func nested(_ levels: Int) -> String {
                let list = String(repeating: "[", count: levels - 2) + String(repeating: "]", count: levels - 2)
                return #"{"data":{"list":\#(list)}}"#
            }
            let check = "peal.check_content('push', $1::jsonb)"
            #expect(try await refusal(connection, check, [.text(nested(32))]) == nil)
            #expect(throws: Never.self) { try JSONValue.parse(nested(32)) }
            #expect(
                try await refusal(connection, check, [.text(nested(33))]) == "content is nested deeper than 32 levels"
            )
            #expect(throws: JSONError.self) { try JSONValue.parse(nested(33)) }
            let large = #"{"title":"\#(String(repeating: "x", count: 262_144))"}"#
            #expect(
                try await refusal(connection, check, [.text(large)]) == "content is 262157 bytes, the limit is 262144"
            )
        }
    }
}
