import OpenSSL

/// An APNs signing key as a person hands it in, checked: it has signed once, and its words fit into a request.
package struct APNsCredential: Sendable {
    /// The key as standard PEM.
    package let pem: [UInt8]
    package let keyID: String
    package let teamID: String
    package let topic: String
    package let environment: String

    /// Checks the parts. Throws status 4 that says what was expected and what was found.
    package init(
        key: [UInt8],
        source: String,
        keyID: String,
        teamID: String,
        topic: String,
        environment: String
    ) throws(CommandError) {
        do {
            pem = try PEMText.normalised(key, purpose: "an APNs key (.p8)")
            _ = try SigningKey(pem: pem, algorithm: .es256, purpose: "an APNs key (.p8)")
        } catch {
            throw CommandError(.refused, error.message, at: source, advice: Self.keyAdvice)
        }
        try Self.check(keyID, option: "--key-id", isWord: true, expectation: "the key id, 10 letters and digits")
        try Self.check(teamID, option: "--team-id", isWord: true, expectation: "the team id, 10 letters and digits")
        try Self.check(
            topic,
            option: "--topic",
            isWord: false,
            expectation: "the app's bundle id, such as com.example.app"
        )
        if topic.hasSuffix(".voip") {
            let plain = topic.dropLast(5)
            throw CommandError(
                .refused,
                "'\(topic)' is the topic of calls, not the bundle id",
                at: "--topic",
                advice: "give \(plain); peal adds .voip where a call needs it"
            )
        }
        guard environment == "production" || environment == "sandbox" else {
            throw CommandError(.refused, "must be production or sandbox, found '\(environment)'", at: "--environment")
        }
        self.keyID = keyID
        self.teamID = teamID
        self.topic = topic
        self.environment = environment
    }

    /// What looks odd but is taken: ids that are not of the usual length, or exchanged.
    package var warnings: [String] {
        [("--key-id", keyID), ("--team-id", teamID)].compactMap { option, id in
            id.count == 10 ? nil : "\(option) has \(id.count) characters, Apple's have 10"
        }
    }

    private static let keyAdvice = "download the key from Apple's developer account under Keys; it is offered only once"

    private static func check(
        _ text: String,
        option: String,
        isWord: Bool,
        expectation: String
    ) throws(CommandError) {
        let fits = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"):
                true
            case UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): !isWord
            default: false
            }
        }
        guard fits, (1...255).contains(text.utf8.count) else {
            throw CommandError(.refused, "expected is \(expectation), found '\(text)'", at: option)
        }
    }
}
