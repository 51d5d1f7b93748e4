/// Hexadecimal text: written in lower case, read in either.
package enum Hex {
    /// The digit for a value of 0 to 15, as ASCII.
    package static func digit(of value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }

    /// The value of an ASCII digit; nil if it is none.
    package static func value(ofDigit byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// Two digits for each byte.
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        append(bytes, to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Adds two ASCII digits for each byte to a buffer.
    package static func append(_ bytes: some Sequence<UInt8>, to buffer: inout [UInt8]) {
        for byte in bytes {
            buffer.append(digit(of: byte >> 4))
            buffer.append(digit(of: byte & 15))
        }
    }

    /// The bytes of a text of digits; nil for an odd number of them or another character.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var bytes: [UInt8] = []
        var pending: UInt8?
        for character in text.utf8 {
            guard let value = value(ofDigit: character) else { return nil }
            if let first = pending {
                bytes.append(first << 4 | value)
                pending = nil
            } else {
                pending = value
            }
        }
        return pending == nil ? bytes : nil
    }
}
