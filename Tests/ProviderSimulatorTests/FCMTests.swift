import ProviderSimulator
import Testing

@Suite struct FCMTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var body: String
        var status: Int
        /// Text that the answer must hold.
        var holds: String

        var testDescription: String { name }
    }

    static func message(_ rest: String) -> String { "{\"message\":{\"token\":\"abc:def\"\(rest)}}" }

    private static func bad(_ name: String, _ body: String, _ holds: String) -> Row {
        Row(name: name, body: body, status: 400, holds: holds)
    }

    private static func good(_ name: String, _ body: String) -> Row {
        Row(name: name, body: body, status: 200, holds: "projects/peal-simulated/messages/")
    }

    static let rows: [Row] = [
        good("token only", message("")),
        good("data of strings", message(",\"data\":{\"kind\":\"ring\",\"notification\":\"x\"}")),
        good("ttl with a fraction", message(",\"android\":{\"ttl\":\"3.5s\",\"priority\":\"HIGH\"}")),
        good("ttl 0 and lower case", message(",\"android\":{\"ttl\":\"0s\",\"priority\":\"high\"}")),
        good("the longest ttl", message(",\"android\":{\"ttl\":\"2419200s\"}")),
        good("camel case", message(",\"android\":{\"collapseKey\":\"a\",\"directBootOk\":true}")),
        good("a topic", "{\"message\":{\"topic\":\"news\"}}"),
        good("a condition", "{\"message\":{\"condition\":\"'a' in topics\"}}"),
        good(
            "an APNs payload",
            message(",\"apns\":{\"headers\":{\"apns-priority\":\"5\"},\"payload\":{\"aps\":{\"badge\":1}}}")
        ),
        good("null is absent", message(",\"notification\":null")),
        bad("not JSON", "{\"message\":", "INVALID_ARGUMENT"),
        bad("no message", "{}", "\"field\":\"message\""),
        bad("no target", "{\"message\":{\"data\":{}}}", "\"field\":\"message\""),
        bad("two targets", message(",\"topic\":\"news\""), "\"field\":\"message\""),
        bad("unknown field", message(",\"androyd\":{}"), "Unknown name \\\"androyd\\\""),
        bad(
            "unknown field at the top",
            "{\"message\":{\"token\":\"a\"},\"dry_run\":true}",
            "Unknown name \\\"dry_run\\\""
        ),
        bad("data holds a number", message(",\"data\":{\"n\":12}"), "\"field\":\"message.data[0].value\""),
        bad("data holds an object", message(",\"data\":{\"a\":\"b\",\"o\":{}}"), "\"field\":\"message.data[1].value\""),
        bad("data key from", message(",\"data\":{\"from\":\"x\"}"), "Invalid data payload key: from"),
        bad("data key google", message(",\"data\":{\"google.x\":\"x\"}"), "Invalid data payload key: google.x"),
        bad("data key gcm", message(",\"android\":{\"data\":{\"gcm_y\":\"x\"}}"), "Invalid data payload key: gcm_y"),
        bad("ttl a number", message(",\"android\":{\"ttl\":60}"), "\"field\":\"message.android.ttl\""),
        bad("ttl without s", message(",\"android\":{\"ttl\":\"60\"}"), "\"field\":\"message.android.ttl\""),
        bad("ttl negative", message(",\"android\":{\"ttl\":\"-1s\"}"), "\"field\":\"message.android.ttl\""),
        bad("ttl too long", message(",\"android\":{\"ttl\":\"2419201s\"}"), "\"field\":\"message.android.ttl\""),
        bad(
            "priority unknown",
            message(",\"android\":{\"priority\":\"urgent\"}"),
            "\"field\":\"message.android.priority\""
        ),
        bad("title a number", message(",\"notification\":{\"title\":1}"), "\"field\":\"message.notification.title\""),
        bad("sticky a text", message(",\"android\":{\"notification\":{\"sticky\":\"x\"}}"), "TYPE_BOOL"),
        bad("too big", message(",\"data\":{\"k\":\"\(String(repeating: "A", count: 4096))\"}"), "too big"),
    ]

    @Test(arguments: rows)
    func `a message is judged by its fields`(row: Row) throws {
        let fixture = try Fixture()
        let headers = fixture.bearer(try fixture.accessToken())
        let answer = try fixture.connect(.fcm).answer("POST", fixture.sendPath, headers: headers, body: row.body)
        #expect(answer.status == row.status)
        #expect(answer.text.contains(row.holds), "\(answer.text)")
        #expect(answer.text.contains("google.rpc.BadRequest") == (row.status == 400 && row.name != "too big"))
    }

    @Test func `4096 bytes of keys and values pass`() throws {
        let fixture = try Fixture()
        let headers = fixture.bearer(try fixture.accessToken())
        let body = Self.message(",\"data\":{\"k\":\"\(String(repeating: "A", count: 4095))\"}")
        #expect(try fixture.connect(.fcm).answer("POST", fixture.sendPath, headers: headers, body: body).status == 200)
    }

    @Test func `validate_only answers with a name and delivers nothing`() throws {
        let fixture = try Fixture()
        let headers = fixture.bearer(try fixture.accessToken())
        let body = "{\"validate_only\":true,\"message\":{\"token\":\"abc:def\"}}"
        let answer = try fixture.connect(.fcm).answer("POST", fixture.sendPath, headers: headers, body: body)
        #expect(answer.text.contains("projects/peal-simulated/messages/fake_message_id"))
        let record = try #require(fixture.simulator.ledger.requests(role: .fcm).first)
        #expect(record.validateOnly)
        #expect(!record.isAccepted)
        #expect(fixture.simulator.ledger.acceptedCountsByToken().isEmpty)
    }

    @Test func `access tokens are known, unexpired and of the project`() throws {
        let fixture = try Fixture { $0.oauth.expiresInSeconds = 60 }
        let good = try fixture.accessToken()
        let client = try fixture.connect(.fcm)
        let body = Self.message("")
        let none = try client.answer("POST", fixture.sendPath, headers: [], body: body)
        #expect(none.status == 401)
        let unknown = try client.answer("POST", fixture.sendPath, headers: fixture.bearer("ya29.nobody"), body: body)
        #expect(unknown.status == 401)
        #expect(unknown.text.contains("google.rpc.ErrorInfo"))
        #expect(!unknown.text.contains("FcmError"))
        let elsewhere = "/v1/projects/nobodys/messages:send"
        let missing = try client.answer("POST", elsewhere, headers: fixture.bearer(good), body: body)
        #expect(missing.status == 404)
        #expect(!missing.text.contains("FcmError"))
        #expect(try client.answer("POST", fixture.sendPath, headers: fixture.bearer(good), body: body).status == 200)
        fixture.simulator.clock.advance(by: .seconds(60))
        let expired = try client.answer("POST", fixture.sendPath, headers: fixture.bearer(good), body: body)
        #expect(expired.status == 401)
        #expect(expired.text.contains("ACCESS_TOKEN_EXPIRED"))
        #expect(try fixture.accessToken() != good)
    }

    @Test func `all access tokens can be made to expire`() throws {
        let fixture = try Fixture()
        let headers = fixture.bearer(try fixture.accessToken())
        fixture.simulator.expireAccessTokens()
        let answer = try fixture.connect(.fcm).answer(
            "POST",
            fixture.sendPath,
            headers: headers,
            body: Self.message("")
        )
        #expect(answer.text.contains("ACCESS_TOKEN_EXPIRED"))
    }

    @Test func `a wrong path is an HTML page`() throws {
        let fixture = try Fixture()
        let headers = fixture.bearer(try fixture.accessToken())
        let path = "/v1/projects//messages:send"
        let answer = try fixture.connect(.fcm).answer("POST", path, headers: headers, body: Self.message(""))
        #expect(answer.status == 404)
        #expect(answer.headers["content-type"] == "text/html; charset=UTF-8")
    }

    @Test func `a hundred streams from the start`() throws {
        let fixture = try Fixture()
        #expect(try fixture.connect(.fcm).announcedStreams == [100])
    }

    @Test func `too many pings without a request end the connection`() throws {
        let fixture = try Fixture { $0.fcm.maximumIdlePings = 2 }
        let client = try fixture.connect(.fcm)
        for _ in 0..<3 { try client.ping() }
        try client.pump { !client.goAways.isEmpty }
        #expect(client.goAways == [RawClient.GoAwayFrame(lastStream: 0, code: 11, debug: "too_many_pings")])
    }

    @Test func `an idle connection is ended`() throws {
        let fixture = try Fixture { $0.fcm.idleTimeoutMilliseconds = 1 }
        let client = try fixture.connect(.fcm)
        try client.pump { !client.goAways.isEmpty }
        #expect(client.goAways == [RawClient.GoAwayFrame(lastStream: 0, code: 0, debug: "session_timed_out")])
    }

    @Test(arguments: FCMFault.allCases)
    func `a token scripts each error`(fault: FCMFault) throws {
        let fixture = try Fixture()
        let headers = fixture.bearer(try fixture.accessToken())
        let body = "{\"message\":{\"token\":\"\(fault.rawValue):x\"}}"
        let answer = try fixture.connect(.fcm).answer("POST", fixture.sendPath, headers: headers, body: body)
        #expect(answer.isWhole)
        let expected: (Int, String) =
            switch fault {
            case .unregistered: (404, "\"errorCode\":\"UNREGISTERED\"")
            case .invalidToken: (400, "not a valid FCM registration token")
            case .invalidTokenField: (400, "\"field\":\"message.token\"")
            case .invalidField: (400, "\"field\":\"message.android\"")
            case .invalidGeneric: (400, "\"errorCode\":\"INVALID_ARGUMENT\"")
            case .tooBig: (400, "too big")
            case .senderMismatch: (403, "\"errorCode\":\"SENDER_ID_MISMATCH\"")
            case .permissionDenied: (403, "PERMISSION_DENIED")
            case .quota: (429, "google.rpc.QuotaFailure")
            case .deviceQuota: (429, "device:message-rate")
            case .quotaPlain: (429, "RESOURCE_EXHAUSTED")
            case .unavailable: (503, "\"errorCode\":\"UNAVAILABLE\"")
            case .internal: (500, "\"errorCode\":\"INTERNAL\"")
            case .thirdPartyAuth: (401, "\"errorCode\":\"THIRD_PARTY_AUTH_ERROR\"")
            case .apnsAuth: (401, "\"errorCode\":\"APNS_AUTH_ERROR\"")
            case .apnsUnregistered: (400, "\"statusCode\":410,\"reason\":\"Unregistered\"")
            case .accessTokenExpired: (401, "ACCESS_TOKEN_EXPIRED")
            case .accessTokenInvalid: (401, "google.rpc.ErrorInfo")
            case .notFoundHTML: (404, "<html>")
            case .projectNotFound: (404, "NOT_FOUND")
            case .unspecified: (400, "UNSPECIFIED_ERROR")
            case .badGateway: (502, "<html>")
            case .gatewayTimeout: (504, "<html>")
            case .unknownCode: (400, "BRAND_NEW_ERROR")
            }
        #expect(answer.status == expected.0)
        #expect(answer.text.contains(expected.1), "\(answer.text)")
    }

    @Test func `quotas of project and device are counted, and come back with time`() throws {
        let fixture = try Fixture()
        fixture.simulator.control.set {
            $0.fcmQuota = FCMQuota(projectPerMinute: 8, devicePerMinute: 2, devicePerHour: 3)
        }
        let client = try fixture.connect(.fcm)
        let access = try fixture.accessToken()
        func send(_ token: String, _ rest: String = "") throws -> RawClient.Answer {
            let body = "{\"message\":{\"token\":\"\(token)\"}\(rest)}"
            return try client.answer("POST", fixture.sendPath, headers: fixture.bearer(access), body: body)
        }
        for _ in 0..<2 { #expect(try send("a").status == 200) }
        let device = try send("a")
        #expect(device.status == 429 && device.text.contains("device:") && device.text.contains("QUOTA_EXCEEDED"))
        #expect(try send("a", ",\"validate_only\":true").status == 200)
        // What is refused counts against the project too.
        #expect(try send("b", ",\"unknown\":1").status == 400)
        for _ in 0..<2 { #expect(try send("b").status == 200) }
        #expect(try send("c").status == 200)
        let project = try send("d")
        #expect(project.status == 429 && project.text.contains("project:"))
        fixture.simulator.clock.advance(by: .seconds(60))
        #expect(try send("a").status == 200)
        #expect(try send("a").text.contains("device:"))
        fixture.simulator.clock.advance(by: .seconds(3_540))
        let later = try fixture.accessToken()
        let body = "{\"message\":{\"token\":\"a\"}}"
        #expect(try client.answer("POST", fixture.sendPath, headers: fixture.bearer(later), body: body).status == 200)
    }
}
