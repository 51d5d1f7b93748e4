import Delivery
import PushCore
import Testing

@Suite struct FCMResponseTests {
    private func interpret(_ status: Int, _ body: String, retryAfter: Duration? = nil) -> Verdict {
        FCMResponse.interpret(status: status, body: Array(body.utf8).span, retryAfter: retryAfter)
    }

    private static let type = "type.googleapis.com/"

    /// An error body as Google writes it.
    private func error(_ code: Int, _ status: String, message: String = "x", details: [String]) -> String {
        #"{"error":{"code":\#(code),"message":"\#(message)","status":"\#(status)","details":[\#(details.joined(separator: ","))]}}"#
    }

    private func fcmError(_ code: String) -> String {
        #"{"@type":"\#(Self.type)google.firebase.fcm.v1.FcmError","errorCode":"\#(code)"}"#
    }

    private func badRequest(_ field: String) -> String {
        #"{"@type":"\#(Self.type)google.rpc.BadRequest","fieldViolations":[{"field":"\#(field)","description":"d"}]}"#
    }

    private func apnsError(status: Int, reason: String) -> String {
        #"{"@type":"\#(Self.type)google.firebase.fcm.v1.ApnsError","statusCode":\#(status),"reason":"\#(reason)"}"#
    }

    private func rejected(_ reason: RejectionReason, _ disposition: Disposition) -> Verdict {
        Verdict(.rejected(reason), disposition)
    }

    @Test func `an accepted message settles, and its name is a range of the answer`() throws {
        let body = Array(#"{ "name": "projects/p/messages/0:12%ab" }"#.utf8)
        let verdict = FCMResponse.interpret(status: 200, body: body.span)
        #expect(verdict == .accepted)
        let found = FCMResponse.nameRange(in: body.span)
        let range = try #require(found)
        #expect(String(decoding: body[range], as: UTF8.self) == "projects/p/messages/0:12%ab")
        for other in ["", "<html>", #"{"name":7}"#, #"{"a":{"name":"x"}}"#, #"["name","x"]"#, #"{"name":"x"#] {
            let none = FCMResponse.nameRange(in: Array(other.utf8).span)
            #expect(none == nil)
        }
    }

    @Test(arguments: [
        (404, "NOT_FOUND", "UNREGISTERED", Disposition.deadToken(DeadToken(.whereProven))),
        (403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH", .deadToken(DeadToken(.orConfiguration))),
        (503, "UNAVAILABLE", "UNAVAILABLE", .retry(RetryAdvice(.provider))),
        (500, "INTERNAL", "INTERNAL", .retry(RetryAdvice(.provider))),
        (400, "INVALID_ARGUMENT", "UNSPECIFIED_ERROR", .retry(RetryAdvice(.provider, attemptLimit: 5))),
        (401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR", .settle),
        (401, "UNAUTHENTICATED", "APNS_AUTH_ERROR", .settle),
        (400, "INVALID_ARGUMENT", "SOMETHING_NEW", .payloadFault(suspectsToken: false)),
        (500, "INTERNAL", "SOMETHING_NEW", .retry(RetryAdvice(.provider))),
    ])
    func `every code has its disposition`(status: Int, canonical: String, code: String, disposition: Disposition) {
        let verdict = interpret(status, error(status, canonical, details: [fcmError(code)]))
        #expect(verdict.outcome == .rejected(RejectionReason(text: code)))
        #expect(verdict.disposition == disposition)
        // Nobody can mend what passes by itself, or what concerns one token.
        let expected: [String: Verdict.Alert] = [
            "THIRD_PARTY_AUTH_ERROR": .thirdPartyKey, "APNS_AUTH_ERROR": .thirdPartyKey,
            "SOMETHING_NEW": .unknownReason,
        ]
        #expect(verdict.alert == (status == 500 ? nil : expected[code]))
    }

    @Test func `case 77: a quota of the provider slows down and retries`() {
        let body = error(429, "RESOURCE_EXHAUSTED", details: [fcmError("QUOTA_EXCEEDED")])
        #expect(
            interpret(429, body)
                == Verdict(
                    .throttled("QUOTA_EXCEEDED", retryAfter: nil),
                    .retry(RetryAdvice(.provider, minimum: .seconds(60)))
                )
        )
        #expect(
            interpret(429, body, retryAfter: .seconds(120))
                == Verdict(
                    .throttled("QUOTA_EXCEEDED", retryAfter: .seconds(120)),
                    .retry(RetryAdvice(.provider, minimum: .seconds(120)))
                )
        )
        for code in ["UNSPECIFIED_ERROR", "UNAVAILABLE", "INTERNAL"] {
            let body = error(429, "RESOURCE_EXHAUSTED", details: [fcmError(code)])
            #expect(interpret(429, body).disposition == .retry(RetryAdvice(.provider, minimum: .seconds(60))))
        }
        #expect(interpret(429, "").disposition == .retry(RetryAdvice(.provider, minimum: .seconds(60))))
        #expect(
            interpret(503, "", retryAfter: .seconds(30)).disposition
                == .retry(RetryAdvice(.provider, minimum: .seconds(30)))
        )
    }

    @Test(arguments: [
        ("device:rate", "", true), ("", "Message rate of the Device", true), ("project:x", "too many", false),
    ])
    func `a quota of one device is not the project's`(subject: String, description: String, isOfDevice: Bool) {
        let failure = """
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
             "violations": [{"subject": "\(subject)", "description": "\(description)"}]}
            """
        let body = error(429, "RESOURCE_EXHAUSTED", details: [fcmError("QUOTA_EXCEEDED"), failure])
        let obstacle: RetryAdvice.Obstacle = isOfDevice ? .device : .provider
        #expect(interpret(429, body).disposition == .retry(RetryAdvice(obstacle, minimum: .seconds(60))))
    }

    @Test func `case 70: of these answers only the unregistered one is a dead token`() {
        let dead = [
            (429, "QUOTA_EXCEEDED"), (401, "THIRD_PARTY_AUTH_ERROR"), (503, "UNAVAILABLE"), (500, "INTERNAL"),
            (404, "UNREGISTERED"),
        ].filter { status, code in
            let verdict = interpret(status, error(status, "X", details: [fcmError(code)]))
            if case .deadToken = verdict.disposition { return true }
            return false
        }
        #expect(dead.map(\.1) == ["UNREGISTERED"])
    }

    @Test func `row 1: the word of APNs behind FCM is a dead token`() {
        for detail in [apnsError(status: 410, reason: "x"), apnsError(status: 400, reason: "Unregistered")] {
            let body = error(400, "INVALID_ARGUMENT", details: [fcmError("INVALID_ARGUMENT"), detail])
            #expect(interpret(400, body) == rejected("INVALID_ARGUMENT", .deadToken(DeadToken(.stated))))
        }
        let body = error(
            400,
            "INVALID_ARGUMENT",
            details: [apnsError(status: 400, reason: "BadDeviceToken"), fcmError("INVALID_ARGUMENT")]
        )
        #expect(interpret(400, body) == rejected("INVALID_ARGUMENT", .deadToken(DeadToken(.unconfirmed))))
    }

    @Test(arguments: ["message.token", "message.fid"])
    func `row 2: a violation of the token field is a dead token`(field: String) {
        let body = error(400, "INVALID_ARGUMENT", details: [fcmError("INVALID_ARGUMENT"), badRequest(field)])
        #expect(interpret(400, body) == rejected("INVALID_ARGUMENT", .deadToken(DeadToken(.unconfirmed))))
        let alone = error(400, "INVALID_ARGUMENT", details: [badRequest(field)])
        #expect(interpret(400, alone) == rejected("INVALID_ARGUMENT", .deadToken(DeadToken(.unconfirmed))))
    }

    @Test(arguments: ["message.data[0].value", "message.android.ttl", "message.android"])
    func `row 3 and case 49: a violation of any other field is a payload fault`(field: String) {
        for details in [[badRequest(field)], [badRequest(field), fcmError("INVALID_ARGUMENT")]] {
            let body = error(400, "INVALID_ARGUMENT", message: "Invalid value", details: details)
            #expect(interpret(400, body) == rejected("INVALID_ARGUMENT", .payloadFault(suspectsToken: false)))
        }
    }

    @Test func `row 4 and case 50: the text about the registration token is a dead token`() {
        let body = error(
            400,
            "INVALID_ARGUMENT",
            message: "The registration token is not a valid FCM registration token",
            details: [fcmError("INVALID_ARGUMENT")]
        )
        #expect(interpret(400, body) == rejected("INVALID_ARGUMENT", .deadToken(DeadToken(.unconfirmed))))
    }

    @Test(arguments: [
        "Android message is too big", "iOS payload too large", "maximum is 4K", "Invalid data payload key: from",
    ])
    func `row 5 and case 11: a text about size or keys is a payload fault`(message: String) {
        let body = error(400, "INVALID_ARGUMENT", message: message, details: [fcmError("INVALID_ARGUMENT")])
        #expect(interpret(400, body) == rejected("INVALID_ARGUMENT", .payloadFault(suspectsToken: false)))
    }

    @Test func `row 6: a text that says nothing is a payload fault that suspects the token`() {
        let body = error(
            400,
            "INVALID_ARGUMENT",
            message: "Request contains an invalid argument.",
            details: [fcmError("INVALID_ARGUMENT")]
        )
        #expect(interpret(400, body) == rejected("INVALID_ARGUMENT", .payloadFault(suspectsToken: true)))
    }

    @Test func `an expired access token is renewed, a broken key of FCM's own is not`() {
        let info =
            #"{"@type":"\#(Self.type)google.rpc.ErrorInfo","reason":"ACCESS_TOKEN_EXPIRED","domain":"d","metadata":{}}"#
        #expect(
            interpret(401, error(401, "UNAUTHENTICATED", details: [info]))
                == rejected("ACCESS_TOKEN_EXPIRED", .refreshCredential)
        )
        #expect(interpret(401, "<html>").disposition == .refreshCredential)
        let third = error(
            401,
            "UNAUTHENTICATED",
            details: [fcmError("THIRD_PARTY_AUTH_ERROR"), apnsError(status: 403, reason: "InvalidProviderToken")]
        )
        #expect(interpret(401, third).disposition == .settle)
    }

    @Test func `case 53 and promise 8: a 403 or 404 without a code is the credential, never the token`() {
        for status in [403, 404] {
            for body in ["", "<html>[nope]</html>", error(status, "PERMISSION_DENIED", details: [])] {
                #expect(interpret(status, body).disposition == .credentialRefused)
            }
        }
    }

    @Test(arguments: [500, 501, 502, 503, 504, 599])
    func `cases 68 and 69: every 5xx is temporary, whatever its body`(status: Int) {
        for body in ["", "<html>[busy]</html>", "not json [", #"{"error":"#, #"{"error":{"details":[{"@type":"x"}]}}"#]
        {
            #expect(interpret(status, body).disposition == .retry(RetryAdvice(.provider)))
        }
    }

    @Test func `keys in any order and unknown details are read`() {
        let body =
            #"{"error":{"details":[{"errorCode":"UNREGISTERED","@type":"\#(Self.type)google.firebase.fcm.v1.FcmError","#
            + #""more":{"errorCode":"INTERNAL"}},{"@type":"y","errorCode":"INTERNAL"}],"code":404}}"#
        #expect(interpret(404, body) == rejected("UNREGISTERED", .deadToken(DeadToken(.whereProven))))
    }

    @Test func `a code outside of the details is not believed`() {
        #expect(interpret(404, #"{"errorCode":"UNREGISTERED"}"#).disposition == .credentialRefused)
        #expect(interpret(404, #"{"x":{"details":[{"errorCode":"UNREGISTERED"}]}}"#).disposition == .credentialRefused)
    }

    @Test func `damaged bodies are judged all the same`() {
        let details = [fcmError("INVALID_ARGUMENT"), badRequest("message.token"), apnsError(status: 410, reason: "x")]
        let whole = Array(error(400, "INVALID_ARGUMENT", details: details).utf8)
        var random = SystemRandomNumberGenerator()
        for _ in 0..<3_000 {
            var body = whole
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                body[Int.random(in: 0..<body.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            for status in [400, 404, 410, 503] {
                let fcm = FCMResponse.interpret(status: status, body: body.span)
                let apns = APNsResponse.interpret(status: status, body: body.span)
                #expect(fcm.outcome != .accepted && apns.outcome != .accepted)
            }
        }
    }

    @Test func `a cut body counts as far as it goes`() {
        let body = error(404, "NOT_FOUND", details: [fcmError("UNREGISTERED")])
        for length in 0..<body.utf8.count {
            let verdict = interpret(404, String(decoding: Array(body.utf8.prefix(length)), as: UTF8.self))
            #expect([.credentialRefused, .deadToken(DeadToken(.whereProven))].contains(verdict.disposition))
        }
    }
}
