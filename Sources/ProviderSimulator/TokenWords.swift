/// The token prefixes that script an answer without any set-up.
///
/// APNs tokens are hex, so there a word is eight hex digits; some take a parameter in the next four digits, decimal.
/// Eight digits are long enough that random tokens do not meet one (one in 60 million). FCM tokens are free text, so
/// there a word is a name before the first colon, with an optional number: `delay-200:rest`. `TokenWords.all` is the
/// table of both; `bad` + status + number gives every APNs reason besides.
package enum TokenWords {
    /// One row of the table.
    package struct Word: Sendable {
        /// Eight hex digits in lower case; nil when there is none for APNs.
        package let apns: String?
        /// A name; nil when there is none for FCM.
        package let fcm: String?
        /// What happens; `N` is the parameter.
        package let meaning: String
        /// The parameter when the token gives none; nil when the word takes none.
        package let defaultParameter: Int?
        let make: @Sendable (Int) -> Script

        init(
            _ apns: String?,
            _ fcm: String?,
            _ meaning: String,
            parameter: Int? = nil,
            _ make: @escaping @Sendable (Int) -> Script
        ) {
            self.apns = apns
            self.fcm = fcm
            self.meaning = meaning
            defaultParameter = parameter
            self.make = make
        }
    }

    /// Behaviour, delay and `retry-after` that a token asks for.
    struct Script: Equatable {
        var behaviour: Behaviour
        var delayMilliseconds = 0
        var retryAfter: RetryAfter?
        /// Acts on that many requests with this token only; nil is for ever.
        var times: Int?
        /// Acts until the bearer is another one than at the first request with this token.
        var untilBearerChanges = false

        init(
            _ behaviour: Behaviour,
            delayMilliseconds: Int = 0,
            retryAfter: RetryAfter? = nil,
            times: Int? = nil,
            untilBearerChanges: Bool = false
        ) {
            self.behaviour = behaviour
            self.delayMilliseconds = delayMilliseconds
            self.retryAfter = retryAfter
            self.times = times
            self.untilBearerChanges = untilBearerChanges
        }
    }

    private static let wordLength = 8
    private static let parameterLength = 4

    private static let byAPNsWord: [UInt32: Word] = {
        var words: [UInt32: Word] = [:]
        for word in all + numbered {
            guard let text = word.apns, let value = UInt32(text, radix: 16) else { continue }
            words[value] = word
        }
        return words
    }()

    private static let byFCMName: [String: Word] = {
        var words: [String: Word] = [:]
        for word in all {
            if let name = word.fcm { words[name] = word }
        }
        return words
    }()

    /// Which first bytes any word has: refuses nearly all tokens without a look into the table.
    private static let firstBytes: [Bool] = {
        var first = [Bool](repeating: false, count: 256)
        for word in byAPNsWord.keys { first[Int(word >> 24)] = true }
        return first
    }()

    /// What an APNs token asks for; nil when it holds no word. `token` is hex in any case.
    static func script(apns token: ArraySlice<UInt8>, role: ProviderRole) -> Script? {
        guard token.count >= wordLength else { return nil }
        var value: UInt32 = 0
        for (index, byte) in token.prefix(wordLength).enumerated() {
            guard isHexDigit(byte) else { return nil }
            value = value << 4 | UInt32(byte < 0x40 ? byte & 0x0F : (byte & 0x0F) + 9)
            if index == 1, !firstBytes[Int(value)] { return nil }
        }
        guard let word = byAPNsWord[value] else { return nil }
        // Tokens that live in one environment only.
        if word.apns == "5a4d0001", role == .apnsSandbox { return nil }
        if word.apns == "940d0001", role == .apnsProduction { return nil }
        let given = parameter(of: token.dropFirst(wordLength).prefix(parameterLength))
        return word.make(given ?? word.defaultParameter ?? 0)
    }

    /// What an FCM token asks for; nil when it holds no word.
    static func script(fcm token: String) -> Script? {
        guard let colon = token.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let name = token[..<colon]
        if let word = byFCMName[String(name)] { return word.make(word.defaultParameter ?? 0) }
        guard let dash = name.lastIndex(of: "-"), let number = Int(name[name.index(after: dash)...]),
            let word = byFCMName[String(name[..<dash])], word.defaultParameter != nil
        else { return nil }
        return word.make(number)
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
