/// Walks through bytes that should be JSON and yields what can be told apart; it never fails, since a provider's front end
/// may answer with a web page, half a text or nothing. Allocates nothing.
package struct JSONScanner {
    /// A piece of the text. Ranges are without quotes and with escapes as they stand.
    package enum Token: Equatable, Sendable {
        case beginObject, endObject, beginArray, endArray
        case key(Range<Int>)
        case string(Range<Int>)
        /// A number, `true`, `false`, `null`, or rubbish.
        case literal(Range<Int>)
    }

    /// How many objects and arrays are open after the last token.
    package private(set) var depth = 0
    private var position = 0

    package init() {}

    /// The next token, or nil at the end of the text or in a string that has no end. Give the same bytes each time.
    package mutating func next(in bytes: Span<UInt8>) -> Token? {
        while position < bytes.count {
            let byte = bytes[position]
            switch byte {
            case 0x20, 0x0A, 0x0D, 0x09, UInt8(ascii: ","), UInt8(ascii: ":"):
                position += 1
            case UInt8(ascii: "{"): return open(.beginObject)
            case UInt8(ascii: "["): return open(.beginArray)
            case UInt8(ascii: "}"): return close(.endObject)
            case UInt8(ascii: "]"): return close(.endArray)
            case UInt8(ascii: "\""): return string(in: bytes)
            default: return literal(in: bytes)
            }
        }
        return nil
    }

    private mutating func open(_ token: Token) -> Token {
        position += 1
        depth += 1
        return token
    }

    private mutating func close(_ token: Token) -> Token {
        position += 1
        depth = max(0, depth - 1)
        return token
    }

    private mutating func string(in bytes: Span<UInt8>) -> Token? {
        let start = position + 1
        position = start
        while position < bytes.count, bytes[position] != UInt8(ascii: "\"") {
            position += bytes[position] == UInt8(ascii: "\\") ? 2 : 1
        }
        guard position < bytes.count else { return nil }
        let range = start..<position
        position += 1
        var after = position
        while after < bytes.count, Self.isSpace(bytes[after]) {
            after += 1
        }
        guard after < bytes.count, bytes[after] == UInt8(ascii: ":") else { return .string(range) }
        position = after + 1
        return .key(range)
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }

    private mutating func literal(in bytes: Span<UInt8>) -> Token {
        let start = position
        scan: while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09, UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "{"), UInt8(ascii: "}"),
                UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "\""):
                break scan
            default: position += 1
            }
        }
        return .literal(start..<position)
    }
}

extension Span<UInt8> {
    /// Whether the bytes of a range are this text. Allocates nothing.
    package func holds(_ text: String, at range: Range<Int>) -> Bool {
        guard range.count == text.utf8.count else { return false }
        var position = range.lowerBound
        for byte in text.utf8 {
            guard self[position] == byte else { return false }
            position += 1
        }
        return true
    }

    /// The whole number that a range spells, or nil where it spells none or one beyond 64 bits.
    package func wholeNumber(at range: Range<Int>) -> Int64? {
        let negative = !range.isEmpty && self[range.lowerBound] == UInt8(ascii: "-")
        let digits = range.dropFirst(negative ? 1 : 0)
        guard !digits.isEmpty else { return nil }
        var value: Int64 = 0
        for position in digits {
            let byte = self[position]
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
            let (scaled, overflow) = value.multipliedReportingOverflow(by: 10)
            let (next, carry) = scaled.addingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            guard !overflow, !carry else { return nil }
            value = next
        }
        return negative ? -value : value
    }

    /// The printable ASCII of a range, at most `limit` bytes of it; other bytes become `?`. For notes about foreign text.
    package func printable(at range: Range<Int>, limit: Int) -> String {
        var text = ""
        for position in range.prefix(limit) {
            let byte = self[position]
            text.unicodeScalars.append(Unicode.Scalar((0x20..<0x7F).contains(byte) ? byte : UInt8(ascii: "?")))
        }
        return text
    }
}
