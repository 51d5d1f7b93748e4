/// A strict reader of JSON (RFC 8259) over bytes: no comments, no trailing commas, valid UTF-8, at most 64 levels.
///
/// The simulator has its own so that it does not share a fault with the encoder that it judges.
struct JSONText {
    /// What a body is, as far as APNs cares.
    enum Shape: Equatable {
        case invalid
        case notObject
        /// The last `aps` of the top level is an object, or it is not (also when absent).
        case object(hasAps: Bool)
    }

    private let bytes: [UInt8]
    private var position = 0
    private static let maximumDepth = 64

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Checks a whole text without building a tree; makes no allocation.
    static func shape(of bytes: [UInt8]) -> Shape {
        guard (try? UTF8Span(validating: bytes.span)) != nil else { return .invalid }
        var text = JSONText(bytes)
        text.skipSpace()
        let isObject = text.peek == UInt8(ascii: "{")
        var hasAps = false
        let isValid = isObject ? text.skipTopObject(&hasAps) : text.skipValue(depth: 0)
        text.skipSpace()
        guard isValid, text.position == bytes.count else { return .invalid }
        return isObject ? .object(hasAps: hasAps) : .notObject
    }

    /// Where a text stops being JSON.
    struct Fault: Error, Equatable {
        /// Bytes before the fault.
        let offset: Int
    }

    /// The tree of a whole text; nil if it is not JSON.
    static func parse(_ bytes: [UInt8]) -> JSONValue? {
        try? parsed(bytes).get()
    }

    /// The tree of a whole text, or where it is not JSON.
    static func parsed(_ bytes: [UInt8]) -> Result<JSONValue, Fault> {
        do {
            _ = try UTF8Span(validating: bytes.span)
        } catch {
            return .failure(Fault(offset: error.byteOffsets.lowerBound))
        }
        var text = JSONText(bytes)
        let value = text.value(depth: 0)
        if value != nil { text.skipSpace() }
        guard let value, text.position == bytes.count else { return .failure(Fault(offset: text.position)) }
        return .success(value)
    }

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        position += 1
        return true
    }

    private mutating func skipSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position += 1
            default: return
            }
        }
    }

    // MARK: Skipping

    private mutating func skipTopObject(_ hasAps: inout Bool) -> Bool {
        guard take(UInt8(ascii: "{")) else { return false }
        skipSpace()
        if take(UInt8(ascii: "}")) { return true }
        while true {
            skipSpace()
            let start = position
            guard skipString() else { return false }
            let isAps =
                position - start == 5 && bytes[start + 1] == UInt8(ascii: "a")
                && bytes[start + 2] == UInt8(ascii: "p") && bytes[start + 3] == UInt8(ascii: "s")
            skipSpace()
            guard take(UInt8(ascii: ":")) else { return false }
            skipSpace()
            if isAps { hasAps = peek == UInt8(ascii: "{") }
            guard skipValue(depth: 1) else { return false }
            skipSpace()
            if take(UInt8(ascii: ",")) { continue }
            return take(UInt8(ascii: "}"))
        }
    }

    private mutating func skipValue(depth: Int) -> Bool {
        guard depth < Self.maximumDepth else { return false }
        skipSpace()
        switch peek {
        case UInt8(ascii: "\""): return skipString()
        case UInt8(ascii: "{"): return skipMembers(close: UInt8(ascii: "}"), areNamed: true, depth: depth)
        case UInt8(ascii: "["): return skipMembers(close: UInt8(ascii: "]"), areNamed: false, depth: depth)
        case UInt8(ascii: "t"): return skipWord("true")
        case UInt8(ascii: "f"): return skipWord("false")
        case UInt8(ascii: "n"): return skipWord("null")
        default: return skipNumber()
        }
    }

    private mutating func skipMembers(close: UInt8, areNamed: Bool, depth: Int) -> Bool {
        position += 1
        skipSpace()
        if take(close) { return true }
        while true {
            skipSpace()
            if areNamed {
                guard skipString() else { return false }
                skipSpace()
                guard take(UInt8(ascii: ":")) else { return false }
            }
            guard skipValue(depth: depth + 1) else { return false }
            skipSpace()
            if take(UInt8(ascii: ",")) { continue }
            return take(close)
        }
    }

    private mutating func skipWord(_ word: StaticString) -> Bool {
        let length = word.utf8CodeUnitCount
        guard position + length <= bytes.count else { return false }
        let isSame = word.withUTF8Buffer { buffer in
            (0..<length).allSatisfy { unsafe buffer[$0] == bytes[position + $0] }
        }
        guard isSame else { return false }
        position += length
        return true
    }

    private mutating func skipString() -> Bool {
        guard take(UInt8(ascii: "\"")) else { return false }
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            switch byte {
            case UInt8(ascii: "\""): return true
            case UInt8(ascii: "\\"): guard skipEscape() else { return false }
            case 0..<0x20:
                position -= 1
                return false
            default: break
            }
        }
        return false
    }

    private mutating func skipEscape() -> Bool {
        guard let byte = peek else { return false }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return true
        case UInt8(ascii: "u"):
            return hexDigits() != nil
        default:
            position -= 1
            return false
        }
    }

    private mutating func skipDigits() -> Bool {
        let start = position
        while let byte = peek, (0x30...0x39).contains(byte) { position += 1 }
        return position > start
    }

    private mutating func skipNumber() -> Bool {
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")) { guard skipDigits() else { return false } }
        if take(UInt8(ascii: ".")) { guard skipDigits() else { return false } }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            guard skipDigits() else { return false }
        }
        return true
    }

    // MARK: Building

    private mutating func value(depth: Int) -> JSONValue? {
        guard depth < Self.maximumDepth else { return nil }
        skipSpace()
        switch peek {
        case UInt8(ascii: "\""): return string().map(JSONValue.string)
        case UInt8(ascii: "{"): return object(depth: depth)
        case UInt8(ascii: "["): return array(depth: depth)
        case UInt8(ascii: "t"): return skipWord("true") ? .bool(true) : nil
        case UInt8(ascii: "f"): return skipWord("false") ? .bool(false) : nil
        case UInt8(ascii: "n"): return skipWord("null") ? .null : nil
        default:
            let start = position
            guard skipNumber() else { return nil }
            return .number(String(decoding: bytes[start..<position], as: UTF8.self))
        }
    }

    private mutating func object(depth: Int) -> JSONValue? {
        position += 1
        var members: [JSONValue.Member] = []
        skipSpace()
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            skipSpace()
            guard let name = string() else { return nil }
            skipSpace()
            guard take(UInt8(ascii: ":")), let value = value(depth: depth + 1) else { return nil }
            members.append(JSONValue.Member(name: name, value: value))
            skipSpace()
            if take(UInt8(ascii: ",")) { continue }
            return take(UInt8(ascii: "}")) ? .object(members) : nil
        }
    }

    private mutating func array(depth: Int) -> JSONValue? {
        position += 1
        var items: [JSONValue] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return .array(items) }
        while true {
            guard let value = value(depth: depth + 1) else { return nil }
            items.append(value)
            skipSpace()
            if take(UInt8(ascii: ",")) { continue }
            return take(UInt8(ascii: "]")) ? .array(items) : nil
        }
    }

    private mutating func string() -> String? {
        let start = position
        guard skipString() else { return nil }
        let end = position - 1
        guard bytes[start..<end].contains(UInt8(ascii: "\\")) else {
            return String(decoding: bytes[(start + 1)..<end], as: UTF8.self)
        }
        var units: [UInt8] = []
        position = start + 1
        while position < end {
            let byte = bytes[position]
            position += 1
            guard byte == UInt8(ascii: "\\") else {
                units.append(byte)
                continue
            }
            guard let scalar = unescaped() else { return nil }
            units += Array(String(Character(scalar)).utf8)
        }
        position = end + 1
        return String(decoding: units, as: UTF8.self)
    }

    private mutating func unescaped() -> Unicode.Scalar? {
        let byte = bytes[position]
        position += 1
        switch byte {
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            guard let first = hexDigits() else { return nil }
            guard (0xD800..<0xDC00).contains(first) else { return Unicode.Scalar(first) }
            guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")), let second = hexDigits(),
                (0xDC00..<0xE000).contains(second)
            else { return nil }
            return Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
        default: return Unicode.Scalar(byte)
        }
    }

    private mutating func hexDigits() -> UInt32? {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { return nil }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }
}

/// A JSON tree; members keep their order and their duplicates.
enum JSONValue: Equatable, Sendable {
    struct Member: Equatable, Sendable {
        let name: String
        let value: JSONValue
    }

    case null
    case bool(Bool)
    /// The number's own text, so that nothing is lost.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object([Member])

    /// The value of a member; the last wins. Nil for other kinds too.
    subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.last { $0.name == name }?.value
    }

    var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    var bool: Bool? {
        guard case .bool(let value) = self else { return nil }
        return value
    }

    /// The number if it is a whole one that fits.
    var integer: Int64? {
        guard case .number(let text) = self else { return nil }
        return Int64(text)
    }

    var array: [JSONValue]? {
        guard case .array(let items) = self else { return nil }
        return items
    }

    var members: [Member]? {
        guard case .object(let members) = self else { return nil }
        return members
    }
}

/// A JSON string literal with its quotes.
func jsonQuoted(_ text: String) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "\"": out += "\\\""
        case "\\": out += "\\\\"
        case "\n": out += "\\n"
        case "\r": out += "\\r"
        case "\t": out += "\\t"
        case _ where scalar.value < 0x20:
            let digits = String(scalar.value, radix: 16)
            out += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        default: out.unicodeScalars.append(scalar)
        }
    }
    return out + "\""
}
