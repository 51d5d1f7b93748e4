extension TokenWords {
    /// The table. APNs words read like what they do: dead, deaf, delay, fall, fade, block, off, close, first, bad body.
    package static let all: [Word] = rejections + repeated + bodies + transport + fcmFaults

    private static let rejections: [Word] = [
        Word("deadbeef", nil, "410 Unregistered, timestamp now") { _ in
            Script(.reject(reason: "Unregistered", timestamp: .now))
        },
        Word("dead01d0", nil, "410 Unregistered, timestamp a year ago (the device registered since)") { _ in
            Script(.reject(reason: "Unregistered", timestamp: .secondsAgo(31_536_000)))
        },
        Word("dead0000", nil, "410 Unregistered without a timestamp") { _ in
            Script(.reject(reason: "Unregistered"))
        },
        Word("5a4d0001", nil, "a sandbox token: 400 BadDeviceToken in production, accepted in the sandbox") { _ in
            Script(.reject(reason: "BadDeviceToken"))
        },
        Word("940d0001", nil, "a production token: 400 BadDeviceToken in the sandbox, accepted in production") { _ in
            Script(.reject(reason: "BadDeviceToken"))
        },
        Word("510d0429", nil, "429 TooManyRequests with retry-after of N seconds", parameter: 2) { seconds in
            Script(.reject(reason: "TooManyRequests"), retryAfter: .seconds(Int64(seconds)))
        },
        Word("510d0503", nil, "503 ServiceUnavailable with retry-after of N seconds", parameter: 2) { seconds in
            Script(.reject(reason: "ServiceUnavailable"), retryAfter: .seconds(Int64(seconds)))
        },
        Word("510d1503", nil, "503 ServiceUnavailable with retry-after as a date N seconds ahead", parameter: 2) {
            Script(.reject(reason: "ServiceUnavailable"), retryAfter: .dateInSeconds(Int64($0)))
        },
    ]

    /// The first N requests for a token meet a fault, the next are accepted.
    private static let repeated: [Word] = [
        first("f1250429", "429 TooManyRequests", .reject(reason: "TooManyRequests")),
        first("f1250500", "500 InternalServerError", .reject(reason: "InternalServerError")),
        first("f1250503", "503 ServiceUnavailable", .reject(reason: "ServiceUnavailable")),
        first("f1250504", "503 Shutdown", .reject(reason: "Shutdown")),
        first("f125b10c", fcm: "first-refused", "REFUSED_STREAM", .refuseStream),
        first("f125deaf", fcm: "first-silence", "no answer", .silence),
        first("f125c105", fcm: "first-drop", "TCP reset", .drop(.reset)),
        Word("f1250403", nil, "403 ExpiredProviderToken until the provider token changes") { _ in
            Script(.reject(reason: "ExpiredProviderToken"), untilBearerChanges: true)
        },
        first(nil, fcm: "first-unavailable", "503 UNAVAILABLE", .fault(.unavailable)),
        first(nil, fcm: "first-internal", "500 INTERNAL", .fault(.internal)),
        first(nil, fcm: "first-quota", "429 QUOTA_EXCEEDED", .fault(.quota)),
        Word(nil, "first-access-token-expired", "401 ACCESS_TOKEN_EXPIRED until the access token changes") { _ in
            Script(.fault(.accessTokenExpired), untilBearerChanges: true)
        },
    ]

    private static let bodies: [Word] = [
        body("badb0d01", "502", .html),
        body("badb0d02", "503", .empty),
        body("badb0d03", "400", .truncatedJSON),
        body("badb0d04", "500", .oneMegabyte),
        body("badb0d05", "400", .unknownReason),
        body("badb0d06", "410", .extraKeys),
        body("badb0d07", "410", .textTimestamp),
        body("badb0d08", "400", .jsonArray),
        body("badb0d09", "503", .notJSON),
    ]

    private static let transport: [Word] = [
        Word("de1ade1a", "delay", "accepted N ms late", parameter: 1000) { Script(.accept, delayMilliseconds: $0) },
        Word("deafdeaf", "silence", "never answered") { _ in Script(.silence) },
        Word("b10cb10c", "refused", "REFUSED_STREAM") { _ in Script(.refuseStream) },
        Word("fa11fa11", "reset", "RST_STREAM with code N", parameter: 2) {
            Script(.resetStream(code: UInt32(clamping: $0)))
        },
        Word("fadefade", "answer-reset", "headers with 200, then RST_STREAM with code N", parameter: 2) {
            Script(.answerThenReset(code: UInt32(clamping: $0)))
        },
        Word("c105e001", "drop", "TCP reset of the connection") { _ in Script(.drop(.reset)) },
        Word("c105e002", "close", "orderly end of the connection, no answer") { _ in Script(.drop(.close)) },
        Word("c105e003", "stop-reading", "half-open: the socket stays, nothing is read or acknowledged any more") { _ in
            Script(.stopReading)
        },
        Word("c105e004", "stop-answering", "nothing on this connection is answered any more, PINGs are") { _ in
            Script(.stopAnswering)
        },
        Word("5a1e5a1e", "settings", "MAX_CONCURRENT_STREAMS becomes N, then accepted", parameter: 1) {
            Script(.settings(maxConcurrentStreams: UInt32(clamping: $0)))
        },
        Word("0ff00001", "goaway-graceful", "accepted; GOAWAY in two steps, closes when all is answered") { _ in
            Script(.goAway(GoAway(lastStream: .graceful)))
        },
        Word("0ff00002", "goaway", "accepted; GOAWAY with the newest stream, closes when all is answered") { _ in
            Script(.goAway(GoAway(lastStream: .newest)))
        },
        Word("0ff00003", "goaway-below", "GOAWAY that excludes the N newest streams", parameter: 1) {
            Script(.goAway(GoAway(lastStream: .belowNewest($0))))
        },
        Word("0ff00004", "goaway-keep", "accepted; GOAWAY with debug data, the socket stays open") { _ in
            Script(.goAway(GoAway(debugData: "{\"reason\":\"Shutdown\"}", then: .keepOpen)))
        },
        Word("0ff00005", "goaway-refuse", "accepted; first step of a graceful GOAWAY, later streams are refused") { _ in
            Script(.goAway(GoAway(lastStream: .graceful, then: .refuseNew)))
        },
        Word("0ff00006", "goaway-zero", "GOAWAY with last stream 0, then the connection closes") { _ in
            Script(.goAway(GoAway(lastStream: .zero, debugData: "session_timed_out", then: .closeNow)))
        },
    ]

    /// Every FCM error under its own name; a number is the seconds of `retry-after`.
    private static let fcmFaults: [Word] =
        FCMFault.allCases.map { fault in
            Word(nil, fault.rawValue, "\(fault.summary)", parameter: -1) { seconds in
                Script(.fault(fault), retryAfter: seconds < 0 ? nil : .seconds(Int64(seconds)))
            }
        } + [
            Word(nil, "unavailable-date", "503 UNAVAILABLE with retry-after as a date N seconds ahead", parameter: 2) {
                Script(.fault(.unavailable), retryAfter: .dateInSeconds(Int64($0)))
            },
            Word(nil, "quota-date", "429 QUOTA_EXCEEDED with retry-after as a date N seconds ahead", parameter: 2) {
                Script(.fault(.quota), retryAfter: .dateInSeconds(Int64($0)))
            },
        ]

    /// `bad` + status + two digits: every reason of APNs, numbered within its status in alphabetical order.
    package static let numbered: [Word] = Set(APNsReasons.statuses.values).sorted().flatMap { status in
        let reasons = APNsReasons.statuses.filter { $0.value == status }.keys.sorted()
        return reasons.enumerated().map { index, reason in
            Word("bad\(status * 100 + index + 1)", nil, "\(status) \(reason)") { _ in
                Script(.reject(reason: reason, timestamp: status == 410 ? .now : .none))
            }
        }
    }

    private static func first(_ apns: String?, fcm: String? = nil, _ what: String, _ behaviour: Behaviour) -> Word {
        Word(apns, fcm, "\(what) for the first N requests with this token, then accepted", parameter: 1) {
            Script(behaviour, times: $0)
        }
    }

    private static func body(_ apns: String, _ status: String, _ body: AnswerBody) -> Word {
        Word(apns, "body-\(body.rawValue)", "\(status) with a body: \(body.rawValue)") { _ in
            Script(.body(status: Int(status) ?? 500, body))
        }
    }
}

extension FCMFault {
    /// Status and code in a few words.
    var summary: String {
        switch self {
        case .unregistered: "404 UNREGISTERED"
        case .invalidToken: "400 INVALID_ARGUMENT, the text names the registration token"
        case .invalidTokenField: "400 INVALID_ARGUMENT with BadRequest on message.token"
        case .invalidField: "400 INVALID_ARGUMENT with BadRequest on message.android"
        case .invalidGeneric: "400 INVALID_ARGUMENT with a general text"
        case .tooBig: "400 INVALID_ARGUMENT, message too big"
        case .senderMismatch: "403 SENDER_ID_MISMATCH"
        case .permissionDenied: "403 PERMISSION_DENIED without FcmError"
        case .quota: "429 QUOTA_EXCEEDED of the project"
        case .deviceQuota: "429 QUOTA_EXCEEDED of the device"
        case .quotaPlain: "429 RESOURCE_EXHAUSTED without FcmError"
        case .unavailable: "503 UNAVAILABLE"
        case .internal: "500 INTERNAL"
        case .thirdPartyAuth: "401 THIRD_PARTY_AUTH_ERROR"
        case .apnsAuth: "401 APNS_AUTH_ERROR"
        case .apnsUnregistered: "400 with ApnsError 410 Unregistered"
        case .accessTokenExpired: "401 ACCESS_TOKEN_EXPIRED"
        case .accessTokenInvalid: "401 for an unknown access token"
        case .notFoundHTML: "404 with an HTML page"
        case .projectNotFound: "404 NOT_FOUND without FcmError"
        case .unspecified: "400 UNSPECIFIED_ERROR"
        case .badGateway: "502 with an HTML page"
        case .gatewayTimeout: "504 with an HTML page"
        case .unknownCode: "400 with an error code that nobody knows"
        }
    }
}
