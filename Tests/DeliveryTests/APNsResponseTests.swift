import Delivery
import PushCore
import Testing

@Suite struct APNsResponseTests {
    private func interpret(
        _ status: Int,
        _ body: String,
        registeredAt: Int64? = nil,
        retryAfter: Duration? = nil
    ) -> Verdict {
        APNsResponse.interpret(
            status: status,
            body: Array(body.utf8).span,
            registeredAtMilliseconds: registeredAt,
            retryAfter: retryAfter
        )
    }

    struct Row: Sendable, CustomStringConvertible {
        let status: Int
        let reason: String
        let disposition: Disposition
        var replaces = false
        var description: String { reason }

        static let all: [Row] = [
            Row(status: 400, reason: "BadCollapseId", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 400, reason: "BadDeviceToken", disposition: .deadToken(DeadToken(.orConfiguration))),
            Row(status: 400, reason: "BadExpirationDate", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 400, reason: "BadMessageId", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 400, reason: "BadPriority", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 400, reason: "BadTopic", disposition: .credentialRefused),
            Row(status: 400, reason: "DeviceTokenNotForTopic", disposition: .deadToken(DeadToken(.orConfiguration))),
            Row(status: 400, reason: "DuplicateHeaders", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 400, reason: "IdleTimeout", disposition: .retry(RetryAdvice(.connection)), replaces: true),
            Row(status: 400, reason: "InvalidPushType", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 400, reason: "MissingDeviceToken", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 400, reason: "MissingTopic", disposition: .credentialRefused),
            Row(status: 400, reason: "PayloadEmpty", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 400, reason: "TopicDisallowed", disposition: .credentialRefused),
            Row(status: 403, reason: "BadCertificate", disposition: .credentialRefused, replaces: true),
            Row(status: 403, reason: "BadCertificateEnvironment", disposition: .credentialRefused, replaces: true),
            Row(status: 403, reason: "BadEnvironmentKeyIdInToken", disposition: .credentialRefused, replaces: true),
            Row(status: 403, reason: "BadEnvironmentKeyInToken", disposition: .credentialRefused, replaces: true),
            Row(status: 403, reason: "ExpiredProviderToken", disposition: .refreshCredential, replaces: true),
            Row(status: 403, reason: "Forbidden", disposition: .credentialRefused),
            Row(status: 403, reason: "InvalidProviderToken", disposition: .credentialRefused),
            Row(status: 403, reason: "MissingProviderToken", disposition: .credentialRefused),
            Row(
                status: 403,
                reason: "UnrelatedKeyIdInToken",
                disposition: .retry(RetryAdvice(.connection)),
                replaces: true
            ),
            Row(status: 404, reason: "BadPath", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 405, reason: "MethodNotAllowed", disposition: .payloadFault(suspectsToken: false)),
            Row(status: 410, reason: "ExpiredToken", disposition: .deadToken(DeadToken(.stated))),
            Row(status: 410, reason: "Unregistered", disposition: .deadToken(DeadToken(.stated))),
            Row(status: 413, reason: "PayloadTooLarge", disposition: .payloadFault(suspectsToken: false)),
            Row(
                status: 429,
                reason: "TooManyProviderTokenUpdates",
                disposition: .retry(RetryAdvice(.provider, minimum: .seconds(1_200))),
                replaces: true
            ),
            Row(
                status: 429,
                reason: "TooManyRequests",
                disposition: .retry(RetryAdvice(.device, minimum: .seconds(1)))
            ),
            Row(status: 500, reason: "InternalServerError", disposition: .retry(RetryAdvice(.provider))),
            Row(status: 503, reason: "ServiceUnavailable", disposition: .retry(RetryAdvice(.provider))),
            Row(status: 503, reason: "Shutdown", disposition: .retry(RetryAdvice(.connection)), replaces: true),
        ]
    }

    @Test(arguments: Row.all)
    func `every reason has its disposition`(row: Row) {
        let verdict = interpret(row.status, #"{"reason":"\#(row.reason)"}"#)
        #expect(verdict.disposition == row.disposition)
        #expect(verdict.replacesConnection == row.replaces)
        switch verdict.outcome {
        case .rejected(let reason), .throttled(let reason, _): #expect(reason.text == row.reason)
        case .accepted, .unanswered: Issue.record("\(row.reason) is an answer and a refusal")
        }
    }

    @Test func `an accepted message settles`() {
        #expect(interpret(200, "") == .accepted)
        #expect(interpret(200, "rubbish") == .accepted)
    }

    @Test(
        arguments: [
            (#"{"reason":"Unregistered","timestamp":1767225600000}"#, 1_767_225_600_000),
            (#"{"timestamp":1767225600000,"reason":"Unregistered"}"#, 1_767_225_600_000),
            (#"{"reason":"Unregistered"}"#, nil),
            (#"{"reason":"Unregistered","timestamp":"x"}"#, nil),
            (#"{"reason":"Unregistered","timestamp":-1}"#, nil),
            (#"{"reason":"Unregistered","timestamp":1e99}"#, nil),
            (#"{"reason":"Unregistered","timestamp":99999999999999999999999}"#, nil),
            (#"{"reason":"Unregistered","timestamp":9223372036854775807}"#, nil),
            (#"{"reason":"Unregistered","timestamp":253402300800000}"#, nil),
            (#"{"reason":"Unregistered","timestamp":253402300799999}"#, 253_402_300_799_999),
            (#"{"extra":{"timestamp":5,"reason":"x"},"reason":"Unregistered","more":[1]}"#, nil),
        ] as [(String, Int64?)]
    )
    func `case 48: the time of a 410 is in milliseconds, and an unreadable one is now`(body: String, since: Int64?) {
        #expect(
            interpret(410, body).disposition == .deadToken(DeadToken(.stated, invalidSinceMilliseconds: since))
        )
    }

    @Test func `promise 8: a registration after the time of a 410 keeps the device`() {
        let body = #"{"reason":"Unregistered","timestamp":1767225600000}"#
        #expect(interpret(410, body, registeredAt: 1_767_225_600_001).disposition == .settle)
        let dead = Disposition.deadToken(DeadToken(.stated, invalidSinceMilliseconds: 1_767_225_600_000))
        #expect(interpret(410, body, registeredAt: 1_767_225_600_000).disposition == dead)
        #expect(interpret(410, body, registeredAt: nil).disposition == dead)
    }

    @Test(arguments: ["", "Gone", "<html>", #"{"reason":"#, #"{"reason":410}"#, #"["reason","Unregistered"]"#])
    func `a 410 without a readable reason disables nobody`(body: String) {
        #expect(interpret(410, body) == Verdict(.rejected("http_410"), .settle, alert: .goneWithoutWord))
    }

    @Test(arguments: [500, 501, 502, 503, 504, 599], ["", "<html>[busy]</html>", "not json [", #"{"reason":"New"}"#])
    func `cases 68 and 69: every 5xx is temporary, whatever its body`(status: Int, body: String) {
        #expect(interpret(status, body).disposition == .retry(RetryAdvice(.provider)))
    }

    @Test(arguments: [400, 404, 405, 413, 418, 422])
    func `promise 8: a payload fault leaves the device alone`(status: Int) {
        for body in ["", "<html>", #"{"reason":"SomethingNew"}"#] {
            #expect(interpret(status, body).disposition == .payloadFault(suspectsToken: false))
        }
    }

    @Test func `without a body a 403 tries a new token, and a 429 slows the device`() {
        #expect(interpret(403, "").disposition == .refreshCredential)
        #expect(interpret(429, "").disposition == .retry(RetryAdvice(.device, minimum: .seconds(1))))
        #expect(interpret(302, "").disposition == .credentialRefused)
        #expect(interpret(204, "").disposition == .settle)
    }

    @Test func `an unknown reason is kept, printable and short`() {
        let long = String(repeating: "x", count: 500)
        #expect(
            interpret(400, #"{"reason":"Neu\n\#(long)"}"#).outcome
                == .rejected(
                    RejectionReason(text: "Neu\\n" + String(repeating: "x", count: 59))
                )
        )
        #expect(interpret(400, "{\"reason\":\"a\u{1}é\"}").outcome == .rejected("a???"))
    }

    @Test func `case 70: of these answers only the 410 is a dead token`() {
        let answers = [
            (429, "TooManyRequests"), (403, "InvalidProviderToken"), (413, "PayloadTooLarge"),
            (500, "InternalServerError"), (410, "Unregistered"),
        ]
        let dead = answers.filter { status, reason in
            if case .deadToken = interpret(status, #"{"reason":"\#(reason)"}"#).disposition { return true }
            return false
        }
        #expect(dead.map(\.1) == ["Unregistered"])
    }

    @Test func `cases 46 and 53: what a wrong setting of ours could cause too counts as a configuration signal`() {
        for reason in ["BadDeviceToken", "DeviceTokenNotForTopic"] {
            #expect(
                interpret(400, #"{"reason":"\#(reason)"}"#).disposition == .deadToken(DeadToken(.orConfiguration))
            )
        }
    }

    @Test func `case 54: a limit, a silence and an overload leave the device alone`() {
        #expect(
            interpret(429, #"{"reason":"TooManyRequests"}"#).disposition
                == .retry(RetryAdvice(.device, minimum: .seconds(1)))
        )
        #expect(interpret(503, #"{"reason":"ServiceUnavailable"}"#).disposition == .retry(RetryAdvice(.provider)))
        #expect(Verdict(unanswered: .timedOut).disposition == .doubtful)
    }

    @Test(arguments: ["PayloadEmpty", "BadTopic"])
    func `case 72: a permanent error is not sent again`(reason: String) {
        switch interpret(400, #"{"reason":"\#(reason)"}"#).disposition {
        case .payloadFault, .credentialRefused: break
        case let other: Issue.record("\(reason) led to \(other)")
        }
    }

    @Test(arguments: [
        (429, #"{"reason":"TooManyRequests"}"#, RetryAdvice.Obstacle.device), (429, "", .device),
        (503, #"{"reason":"ServiceUnavailable"}"#, .provider), (503, "<html>", .provider),
        (503, #"{"reason":"Shutdown"}"#, .connection),
    ])
    func `case 74: what Retry-After asks for is the least wait`(
        status: Int,
        body: String,
        obstacle: RetryAdvice.Obstacle
    ) {
        let verdict = interpret(status, body, retryAfter: .seconds(120))
        #expect(verdict.disposition == .retry(RetryAdvice(obstacle, minimum: .seconds(120))))
        if case .throttled(_, let retryAfter) = verdict.outcome { #expect(retryAfter == .seconds(120)) }
    }

    @Test func `a wait of our own is not cut short by Retry-After`() {
        let verdict = interpret(429, #"{"reason":"TooManyProviderTokenUpdates"}"#, retryAfter: .seconds(5))
        #expect(verdict.disposition == .retry(RetryAdvice(.provider, minimum: .seconds(1_200))))
    }

    @Test func `case 89: an expired provider token is renewed and its connection replaced`() {
        let verdict = interpret(403, #"{"reason":"ExpiredProviderToken"}"#)
        #expect(verdict == Verdict(.rejected("ExpiredProviderToken"), .refreshCredential, replacesConnection: true))
    }

    @Test func `case 91: a provider token that cannot be verified is the credential's fault`() {
        #expect(interpret(403, #"{"reason":"InvalidProviderToken"}"#).disposition == .credentialRefused)
    }

    @Test func `a body of a megabyte is read and survives`() {
        let filler = String(repeating: #"{"a":["x"]},"#, count: 90_000)
        let verdict = interpret(400, #"{"list":[\#(filler)1],"reason":"BadTopic"}"#)
        #expect(verdict.disposition == .credentialRefused)
    }
}
