/// Base64 with the URL alphabet and no padding (RFC 4648 section 5), and reading of the standard form.
package enum Base64URL {
    /// The text for some bytes, without padding.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        append(bytes, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Adds the text for some bytes, as ASCII without padding, to a buffer.
    package static func append(_ bytes: some Sequence<UInt8>, to buffer: inout [UInt8]) {
        var bits: UInt32 = 0
        var bitCount: UInt32 = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            bitCount += 8
            while bitCount >= 6 {
                bitCount -= 6
                buffer.append(character(for: UInt8(truncatingIfNeeded: bits >> bitCount & 63)))
            }
        }
        if bitCount > 0 {
            buffer.append(character(for: UInt8(truncatingIfNeeded: bits << (6 - bitCount) & 63)))
        }
    }

    /// The bytes of a text in the URL alphabet, with or without padding; nil if it is malformed.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        decode(text, plus: UInt8(ascii: "-"), slash: UInt8(ascii: "_"), isPaddingRequired: false)
    }

    /// The bytes of a text in the standard alphabet with padding (RFC 4648 section 4); nil if it is malformed.
    package static func decodeStandard(_ text: some StringProtocol) -> [UInt8]? {
        decode(text, plus: UInt8(ascii: "+"), slash: UInt8(ascii: "/"), isPaddingRequired: true)
    }

    private static func character(for value: UInt8) -> UInt8 {
        switch value {
        case 0..<26: UInt8(ascii: "A") + value
        case 26..<52: UInt8(ascii: "a") + value - 26
        case 52..<62: UInt8(ascii: "0") + value - 52
        case 62: UInt8(ascii: "-")
        default: UInt8(ascii: "_")
        }
    }

    private static func decode(
        _ text: some StringProtocol,
        plus: UInt8,
        slash: UInt8,
        isPaddingRequired: Bool
    ) -> [UInt8]? {
        var bytes: [UInt8] = []
        var bits: UInt32 = 0
        var bitCount: UInt32 = 0
        var characterCount = 0
        var paddingCount = 0
        for character in text.utf8 {
            if character == UInt8(ascii: "=") {
                paddingCount += 1
                continue
            }
            let value: UInt8
            switch character {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = character - UInt8(ascii: "A")
            case UInt8(ascii: "a")...UInt8(ascii: "z"): value = character - UInt8(ascii: "a") + 26
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = character - UInt8(ascii: "0") + 52
            case plus: value = 62
            case slash: value = 63
            default: return nil
            }
            guard paddingCount == 0 else { return nil }
            characterCount += 1
            bits = bits << 6 | UInt32(value)
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> bitCount))
            }
            bits &= 1 << bitCount - 1
        }
        // What is left over must be zero, or two texts would stand for the same bytes.
        guard bits == 0, characterCount % 4 != 1 else { return nil }
        let fullPadding = (4 - characterCount % 4) % 4
        guard paddingCount == fullPadding || (paddingCount == 0 && !isPaddingRequired) else { return nil }
        return bytes
    }
}
