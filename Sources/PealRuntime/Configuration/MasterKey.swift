import PushCore

/// The key that credentials are sealed under: 32 bytes that the operator keeps outside the database.
package struct MasterKey: Sendable {
    /// The 32 bytes. Never log them.
    package let bytes: [UInt8]

    /// Reads 64 hex digits or base64 of 32 bytes, with white space around. `source` says in the error where the text is from.
    package init(text: String, source: String) throws(CommandError) {
        let word = text.split(whereSeparator: \.isWhitespace)
        guard word.count == 1 else {
            throw CommandError(
                .refused,
                word.isEmpty ? "the master key is empty" : "the master key has white space in its middle",
                at: source,
                advice: Self.advice
            )
        }
        let decoded = Hex.decode(word[0]) ?? Base64URL.decodeStandard(word[0])
        guard let decoded, decoded.count == 32 else {
            let found =
                decoded.map { "\($0.count) bytes" } ?? "\(word[0].count) characters that are neither hex nor base64"
            throw CommandError(.refused, "the master key is \(found), not 32 bytes", at: source, advice: Self.advice)
        }
        bytes = decoded
    }

    private static let advice = "make one with: openssl rand -hex 32"
}
