/// The token prefixes that script an answer without any set-up.
///
/// APNs tokens are hex, so there a word is eight hex digits; some take a parameter in the next four, decimal. Eight
/// digits are long enough that random tokens do not meet one (one in 70 million). FCM tokens are free text, so there
/// a word is a name before the first colon, with an optional number: `delay-200:rest`. Both lists lead to `Behaviour`s.
package enum TokenWords {
    /// One row of the table, as `docs/simulator.md` and the help print it.
    package struct Word: Sendable {
        /// Hex digits for APNs; `NNNN` stands for the parameter.
        package let apns: String?
        /// Name for FCM; `-N` stands for the parameter.
        package let fcm: String?
        package let meaning: String
    }

    /// Behaviour, delay and `retry-after` that a token asks for.
    struct Script: Equatable {
        var behaviour = Behaviour.accept
        var delayMilliseconds = 0
        var retryAfter: RetryAfter?
        /// Acts on that many requests with this token only; nil is for ever.
        var times: Int?
        /// Acts until the bearer is another one than at the first request with this token.
        var untilBearerChanges = false
    }

    static let wordLength = 8
    static let parameterLength = 4

    /// What an APNs token asks for; nil when it holds no word. `token` is hex in any case.
    static func script(apns token: ArraySlice<UInt8>, role: ProviderRole) -> Script? {
        guard token.count >= wordLength else { return nil }
        var word: UInt32 = 0
        for byte in token.prefix(wordLength) {
            guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { return nil }
            word = word << 4 | UInt32(digit)
        }
        guard isWordStart(word) else { return nil }
        let parameter = parameter(of: token.dropFirst(wordLength).prefix(parameterLength))
        return apnsScript(word, parameter: parameter, role: role)
    }

    /// What an FCM token asks for; nil when it holds no word.
    static func script(fcm token: String) -> Script? {
        guard let colon = token.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let word = token[..<colon]
        if let script = fcmScript(String(word), parameter: nil) { return script }
        guard let dash = word.lastIndex(of: "-"), let number = Int(word[word.index(after: dash)...]) else { return nil }
        return fcmScript(String(word[..<dash]), parameter: number)
    }

    /// Quick refusal for nearly all tokens: the first two digits decide whether the table is worth a look.
    private static func isWordStart(_ word: UInt32) -> Bool {
        switch word >> 24 {
        case 0x0F, 0x51, 0x5A, 0x94, 0xB1, 0xBA, 0xC1, 0xDE, 0xF1, 0xFA: true
        default: false
        }
    }

    private static func parameter(of digits: ArraySlice<UInt8>) -> Int? {
        guard digits.count == parameterLength else { return nil }
        var value = 0
        for byte in digits {
            guard (0x30...0x39).contains(byte) else { return nil }
            value = value * 10 + Int(byte - 0x30)
        }
        return value
    }
}

/// Rejections by their number: `bad` + status + two digits, `bad40002` for BadDeviceToken.
private let numberedReasons: [UInt32: String] = {
    var byWord: [UInt32: String] = [:]
    for status in Set(APNsReasons.statuses.values) {
        let reasons = APNsReasons.statuses.filter { $0.value == status }.keys.sorted()
        for (index, reason) in reasons.enumerated() {
            let digits = String(status * 100 + index + 1)
            byWord[UInt32("bad" + digits, radix: 16) ?? 0] = reason
        }
    }
    return byWord
}()

private func apnsScript(_ word: UInt32, parameter: Int?, role: ProviderRole) -> TokenWords.Script? {
    if let reason = numberedReasons[word] {
        let is410 = APNsReasons.status(of: reason) == 410
        return TokenWords.Script(behaviour: .reject(reason: reason, timestamp: is410 ? .now : .none))
    }
    if let script = apnsRepeatedScript(word, parameter: parameter) { return script }
    switch word {
    case 0xDEAD_BEEF: return .init(behaviour: .reject(reason: "Unregistered", timestamp: .now))
    case 0xDEAD_01D0: return .init(behaviour: .reject(reason: "Unregistered", timestamp: .secondsAgo(31_536_000)))
    case 0xDEAD_0000: return .init(behaviour: .reject(reason: "Unregistered", timestamp: .none))
    case 0xDE1A_DE1A: return .init(behaviour: .accept, delayMilliseconds: parameter ?? 1000)
    case 0xDEAF_DEAF: return .init(behaviour: .silence)
    case 0x0FF0_0001: return .init(behaviour: .goAway(GoAway(lastStream: .graceful)))
    case 0x0FF0_0002: return .init(behaviour: .goAway(GoAway(lastStream: .newest)))
    case 0x0FF0_0003: return .init(behaviour: .goAway(GoAway(lastStream: .belowNewest(parameter ?? 1))))
    case 0x0FF0_0004:
        return .init(behaviour: .goAway(GoAway(debugData: "{\"reason\":\"Shutdown\"}", then: .keepOpen)))
    case 0x0FF0_0005: return .init(behaviour: .goAway(GoAway(lastStream: .graceful, then: .refuseNew)))
    case 0x0FF0_0006: return .init(behaviour: .goAway(GoAway(lastStream: .zero, then: .closeNow)))
    case 0x5A4D_0001 where role == .apnsProduction: return .init(behaviour: .reject(reason: "BadDeviceToken"))
    case 0x940D_0001 where role == .apnsSandbox: return .init(behaviour: .reject(reason: "BadDeviceToken"))
    default: break
    }
    if let script = sharedHexScript(word, parameter: parameter) { return script }
    return apnsBodyScript(word)
}

/// `f125` (first): the first n requests for the token meet the fault, the next are accepted.
private func apnsRepeatedScript(_ word: UInt32, parameter: Int?) -> TokenWords.Script? {
    let times = parameter ?? 1
    switch word {
    case 0xF125_0429: return .init(behaviour: .reject(reason: "TooManyRequests"), times: times)
    case 0xF125_0500: return .init(behaviour: .reject(reason: "InternalServerError"), times: times)
    case 0xF125_0503: return .init(behaviour: .reject(reason: "ServiceUnavailable"), times: times)
    case 0xF125_0504: return .init(behaviour: .reject(reason: "Shutdown"), times: times)
    case 0xF125_0403: return .init(behaviour: .reject(reason: "ExpiredProviderToken"), untilBearerChanges: true)
    case 0xF125_B10C: return .init(behaviour: .refuseStream, times: times)
    case 0xF125_DEAF: return .init(behaviour: .silence, times: times)
    case 0xF125_C105: return .init(behaviour: .drop(.reset), times: times)
    case 0x510D_0429:
        return .init(behaviour: .reject(reason: "TooManyRequests"), retryAfter: .seconds(Int64(parameter ?? 2)))
    case 0x510D_0503:
        return .init(behaviour: .reject(reason: "ServiceUnavailable"), retryAfter: .seconds(Int64(parameter ?? 2)))
    case 0x510D_1503:
        return .init(
            behaviour: .reject(reason: "ServiceUnavailable"),
            retryAfter: .dateInSeconds(Int64(parameter ?? 2))
        )
    default: return nil
    }
}

private func sharedHexScript(_ word: UInt32, parameter: Int?) -> TokenWords.Script? {
    switch word {
    case 0xB10C_B10C: .init(behaviour: .refuseStream)
    case 0xFA11_FA11: .init(behaviour: .resetStream(code: UInt32(parameter ?? 2)))
    case 0xFADE_FADE: .init(behaviour: .answerThenReset(code: UInt32(parameter ?? 2)))
    case 0xC105_E001: .init(behaviour: .drop(.reset))
    case 0xC105_E002: .init(behaviour: .drop(.close))
    case 0xC105_E003: .init(behaviour: .stopReading)
    case 0xC105_E004: .init(behaviour: .stopAnswering)
    case 0x5A1E_5A1E: .init(behaviour: .settings(maxConcurrentStreams: UInt32(parameter ?? 1)))
    default: nil
    }
}

/// `badb0d` (bad body) and a number.
private func apnsBodyScript(_ word: UInt32) -> TokenWords.Script? {
    switch word {
    case 0xBADB_0D01: .init(behaviour: .body(status: 502, .html))
    case 0xBADB_0D02: .init(behaviour: .body(status: 503, .empty))
    case 0xBADB_0D03: .init(behaviour: .body(status: 400, .truncatedJSON))
    case 0xBADB_0D04: .init(behaviour: .body(status: 500, .oneMegabyte))
    case 0xBADB_0D05: .init(behaviour: .body(status: 400, .unknownReason))
    case 0xBADB_0D06: .init(behaviour: .body(status: 410, .extraKeys))
    case 0xBADB_0D07: .init(behaviour: .body(status: 410, .textTimestamp))
    case 0xBADB_0D08: .init(behaviour: .body(status: 400, .jsonArray))
    case 0xBADB_0D09: .init(behaviour: .body(status: 503, .notJSON))
    case 0xBADB_0D10: .init(behaviour: .body(status: 418, .unknownReason))
    default: nil
    }
}

private func fcmScript(_ word: String, parameter: Int?) -> TokenWords.Script? {
    if word == "first-access-token-expired" {
        return .init(behaviour: .fault(.accessTokenExpired), untilBearerChanges: true)
    }
    let retryAfter = parameter.map { RetryAfter.seconds(Int64($0)) }
    if let fault = FCMFault(rawValue: word) { return .init(behaviour: .fault(fault), retryAfter: retryAfter) }
    if word.hasPrefix("first-"), let fault = FCMFault(rawValue: String(word.dropFirst(6))) {
        return .init(behaviour: .fault(fault), times: parameter ?? 1)
    }
    if word.hasPrefix("body-"), let body = AnswerBody(rawValue: String(word.dropFirst(5))) {
        return .init(behaviour: .body(status: parameter ?? 503, body))
    }
    switch word {
    case "delay": return .init(behaviour: .accept, delayMilliseconds: parameter ?? 1000)
    case "silence": return .init(behaviour: .silence)
    case "first-silence": return .init(behaviour: .silence, times: parameter ?? 1)
    case "refused": return .init(behaviour: .refuseStream)
    case "first-refused": return .init(behaviour: .refuseStream, times: parameter ?? 1)
    case "reset": return .init(behaviour: .resetStream(code: UInt32(parameter ?? 2)))
    case "answer-reset": return .init(behaviour: .answerThenReset(code: UInt32(parameter ?? 2)))
    case "drop": return .init(behaviour: .drop(.reset))
    case "first-drop": return .init(behaviour: .drop(.reset), times: parameter ?? 1)
    case "close": return .init(behaviour: .drop(.close))
    case "stop-reading": return .init(behaviour: .stopReading)
    case "stop-answering": return .init(behaviour: .stopAnswering)
    case "settings": return .init(behaviour: .settings(maxConcurrentStreams: UInt32(parameter ?? 1)))
    case "goaway": return .init(behaviour: .goAway(GoAway(lastStream: .newest, debugData: "session_timed_out")))
    case "goaway-graceful": return .init(behaviour: .goAway(GoAway(lastStream: .graceful)))
    case "goaway-below": return .init(behaviour: .goAway(GoAway(lastStream: .belowNewest(parameter ?? 1))))
    case "goaway-zero": return .init(behaviour: .goAway(GoAway(lastStream: .zero, then: .closeNow)))
    case "goaway-keep": return .init(behaviour: .goAway(GoAway(then: .keepOpen)))
    case "unavailable-date":
        return .init(behaviour: .fault(.unavailable), retryAfter: .dateInSeconds(Int64(parameter ?? 2)))
    case "quota-date": return .init(behaviour: .fault(.quota), retryAfter: .dateInSeconds(Int64(parameter ?? 2)))
    default: return nil
    }
}
