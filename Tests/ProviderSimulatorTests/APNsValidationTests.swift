import ProviderSimulator
import Testing

@Suite struct APNsValidationTests {
    /// One change to a good request and what comes of it.
    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var headers: [String: String?] = [:]
        var method = "POST"
        var path = Fixture.path(Fixture.token())
        var body = Fixture.alert
        var status: Int
        var reason: String?

        var testDescription: String { name }
    }

    static func payload(bytes: Int) -> String {
        let frame = "{\"aps\":{\"alert\":\"\"}}"
        return "{\"aps\":{\"alert\":\"\(String(repeating: "A", count: bytes - frame.utf8.count))\"}}"
    }

    static let voip: [String: String?] = ["apns-push-type": "voip", "apns-topic": "com.example.app.voip"]

    static let accepted: [Row] = [
        Row(name: "a plain alert", status: 200),
        Row(name: "no push type", headers: ["apns-push-type": nil], status: 200),
        Row(
            name: "no optional header",
            headers: ["apns-priority": nil, "apns-expiration": nil],
            status: 200
        ),
        Row(name: "expiration 0", headers: ["apns-expiration": "0"], status: 200),
        Row(name: "priority 5", headers: ["apns-priority": "5"], status: 200),
        Row(name: "priority 1", headers: ["apns-priority": "1"], status: 200),
        Row(name: "background at 5", headers: ["apns-push-type": "background", "apns-priority": "5"], status: 200),
        Row(
            name: "collapse id of 64 bytes",
            headers: ["apns-collapse-id": String(repeating: "a", count: 64)],
            status: 200
        ),
        Row(name: "4096 bytes", body: payload(bytes: 4096), status: 200),
        Row(name: "voip of 5120 bytes", headers: voip, body: payload(bytes: 5120), status: 200),
        Row(name: "token of 160 digits", path: Fixture.path(String(repeating: "ab", count: 80)), status: 200),
        Row(name: "token in upper case", path: Fixture.path(String(repeating: "AB", count: 32)), status: 200),
        Row(
            name: "a Live Activity",
            headers: ["apns-push-type": "liveactivity", "apns-topic": "com.example.app.push-type.liveactivity"],
            status: 200
        ),
    ]

    static let refused: [Row] = [
        Row(name: "apns-id not a UUID", headers: ["apns-id": "17"], status: 400, reason: "BadMessageId"),
        Row(name: "GET", method: "GET", status: 405, reason: "MethodNotAllowed"),
        Row(name: "no topic", headers: ["apns-topic": nil], status: 400, reason: "MissingTopic"),
        Row(name: "topic with a space", headers: ["apns-topic": "com example"], status: 400, reason: "BadTopic"),
        Row(
            name: "collapse id of 65 bytes",
            headers: ["apns-collapse-id": String(repeating: "a", count: 65)],
            status: 400,
            reason: "BadCollapseId"
        ),
        Row(name: "expiration a word", headers: ["apns-expiration": "soon"], status: 400, reason: "BadExpirationDate"),
        Row(name: "expiration negative", headers: ["apns-expiration": "-1"], status: 400, reason: "BadExpirationDate"),
        Row(name: "priority 7", headers: ["apns-priority": "7"], status: 400, reason: "BadPriority"),
        Row(name: "background at 10", headers: ["apns-push-type": "background"], status: 400, reason: "BadPriority"),
        Row(
            name: "background without priority",
            headers: ["apns-push-type": "background", "apns-priority": nil],
            status: 400,
            reason: "BadPriority"
        ),
        Row(name: "unknown push type", headers: ["apns-push-type": "shout"], status: 400, reason: "InvalidPushType"),
        Row(name: "wrong path", path: "/4/device/ab", status: 404, reason: "BadPath"),
        Row(name: "path too deep", path: "/3/device/abab/cd", status: 404, reason: "BadPath"),
        Row(name: "no token", path: "/3/device/", status: 400, reason: "MissingDeviceToken"),
        Row(name: "token not hex", path: Fixture.path(Fixture.token("xy")), status: 400, reason: "BadDeviceToken"),
        Row(
            name: "token of 63 digits",
            path: Fixture.path(String(Fixture.token().dropLast())),
            status: 400,
            reason: "BadDeviceToken"
        ),
        Row(
            name: "no provider token",
            headers: ["authorization": nil],
            status: 403,
            reason: "MissingProviderToken"
        ),
        Row(
            name: "voip to the bare topic",
            headers: ["apns-push-type": "voip"],
            status: 400,
            reason: "TopicDisallowed"
        ),
        Row(
            name: "alert to the voip topic",
            headers: ["apns-topic": "com.example.app.voip"],
            status: 400,
            reason: "TopicDisallowed"
        ),
        Row(name: "no body", body: "", status: 400, reason: "PayloadEmpty"),
        Row(name: "4097 bytes", body: payload(bytes: 4097), status: 413, reason: "PayloadTooLarge"),
        Row(
            name: "voip of 5121 bytes",
            headers: voip,
            body: payload(bytes: 5121),
            status: 413,
            reason: "PayloadTooLarge"
        ),
        Row(name: "body not JSON", body: "{\"aps\":{}", status: 400, reason: "BadPayload"),
        Row(name: "aps not an object", body: "{\"aps\":\"x\"}", status: 400, reason: "BadPayload"),
        Row(name: "no aps", body: "{\"a\":{}}", status: 400, reason: "BadPayload"),
    ]

    @Test(arguments: accepted + refused)
    func `a request is judged by its headers and body`(row: Row) throws {
        let fixture = try Fixture()
        let client = try fixture.connect()
        let answer = try client.answer(
            row.method,
            row.path,
            headers: try fixture.alertHeaders(row.headers),
            body: row.body
        )
        #expect(answer.status == row.status)
        #expect(answer.isWhole)
        let body = row.reason.map { "{\"reason\":\"\($0)\"}" } ?? ""
        #expect(answer.text == body)
        #expect(answer.headers["content-type"] == (row.reason == nil ? nil : "application/json"))
        let record = try #require(fixture.simulator.ledger.requests().first)
        #expect(record.status == row.status)
        #expect(record.reason == row.reason)
        #expect(record.isAccepted == (row.status == 200))
    }

    @Test func `a header that comes twice is refused`() throws {
        let fixture = try Fixture()
        let headers = try fixture.alertHeaders() + [("apns-topic", "com.example.app")]
        let answer = try fixture.connect().answer(
            "POST",
            Fixture.path(Fixture.token()),
            headers: headers,
            body: Fixture.alert
        )
        #expect(answer.status == 400)
        #expect(answer.text == "{\"reason\":\"DuplicateHeaders\"}")
    }

    @Test func `the apns-id comes back as it was sent`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect()
        let token = try fixture.providerToken()
        for id in ["6F1D3C52-0D0B-4F7E-9A57-1E0F5F2F9B10", "6f1d3c52-0d0b-4f7e-9a57-1e0f5f2f9b11"] {
            let headers = try fixture.alertHeaders(["apns-id": id], token: token)
            let answer = try client.answer("POST", Fixture.path(Fixture.token()), headers: headers, body: Fixture.alert)
            #expect(answer.headers["apns-id"] == id)
        }
    }

    @Test func `an absent apns-id is made in upper case`() throws {
        let fixture = try Fixture()
        let headers = try fixture.alertHeaders(["apns-id": nil])
        let answer = try fixture.connect().answer(
            "POST",
            Fixture.path(Fixture.token()),
            headers: headers,
            body: Fixture.alert
        )
        let id = try #require(answer.headers["apns-id"])
        #expect(id.wholeMatch(of: /[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-A[0-9A-F]{3}-[0-9A-F]{12}/) != nil)
        #expect(answer.headers["apns-unique-id"] == nil)
    }

    @Test func `only the sandbox adds an apns-unique-id`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect(.apnsSandbox)
        let answer = try client.answer(
            "POST",
            Fixture.path(Fixture.token()),
            headers: try fixture.alertHeaders(),
            body: Fixture.alert
        )
        let id = try #require(answer.headers["apns-unique-id"])
        #expect(id.wholeMatch(of: /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}/) != nil)
    }

    @Test func `topics can be limited to those of the team`() throws {
        let fixture = try Fixture { $0.apns.topics = ["com.example.app"] }
        let client = try fixture.connect()
        let token = try fixture.providerToken()
        let good = try fixture.alertHeaders(Self.voip, token: token)
        #expect(
            try client.answer("POST", Fixture.path(Fixture.token()), headers: good, body: Fixture.alert).status == 200
        )
        let bad = try fixture.alertHeaders(["apns-topic": "com.example.other"], token: token)
        let answer = try client.answer("POST", Fixture.path(Fixture.token()), headers: bad, body: Fixture.alert)
        #expect(answer.text == "{\"reason\":\"TopicDisallowed\"}")
    }

    @Test func `one stream at first, a thousand after the first acceptance`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect()
        #expect(client.announcedStreams == [1])
        let token = try fixture.providerToken()
        let bad = try fixture.alertHeaders(["apns-priority": "7"], token: token)
        _ = try client.answer("POST", Fixture.path(Fixture.token()), headers: bad, body: Fixture.alert)
        #expect(client.announcedStreams == [1])
        let good = try fixture.alertHeaders(token: token)
        _ = try client.answer("POST", Fixture.path(Fixture.token()), headers: good, body: Fixture.alert)
        try client.pump { client.announcedStreams.count == 2 }
        #expect(client.announcedStreams == [1, 1000])
    }

    @Test func `the limit can fall to one after a rejection and rise again`() throws {
        let fixture = try Fixture { $0.apns.lowersStreamsAfterRejection = true }
        let client = try fixture.connect()
        let token = try fixture.providerToken()
        for word in ["ab", "bad40002", "deadbeef", "ab"] {
            let headers = try fixture.alertHeaders(token: token)
            _ = try client.answer("POST", Fixture.path(Fixture.token(word)), headers: headers, body: Fixture.alert)
        }
        try client.pump { client.announcedStreams.count == 4 }
        #expect(client.announcedStreams == [1, 1000, 1, 1000])
    }
}
