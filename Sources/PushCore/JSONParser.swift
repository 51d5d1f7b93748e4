/// Why a text is not the JSON that we take: the place, by byte and by path, and what is wrong there.
package struct JSONError: Error, Equatable, CustomStringConvertible {
    /// Bytes before the fault.
    package let offset: Int
    /// The way to the value, such as `content.actions[1].title`.
    package let path: String
    /// What is wrong.
    package let problem: String

    package var description: String { "\(path) \(problem) (at byte \(offset))" }
}

extension JSONValue {
    /// How deep objects and arrays may nest.
    package static let depthLimit = 32

    /// Parses one JSON text strictly by RFC 8259. Refuses repeated keys, U+0000, lone surrogates and nesting over `depthLimit`.
    /// - Parameter root: what paths in errors begin with.
    package static func parse(_ bytes: [UInt8], root: String = "content") throws(JSONError) -> JSONValue {
        var parser = JSONParser(bytes: bytes, root: root)
        return try parser.parseDocument()
    }

    /// Parses the UTF-8 of a text.
    package static func parse(_ text: String, root: String = "content") throws(JSONError) -> JSONValue {
        try parse(Array(text.utf8), root: root)
    }
}

private struct JSONParser {
    private enum Step {
        case key(String)
        case index(Int)
    }

    private let bytes: [UInt8]
    private let root: String
    private var position = 0
    private var steps: [Step] = []

    init(bytes: [UInt8], root: String) {
        self.bytes = bytes
        self.root = root
    }

    mutating func parseDocument() throws(JSONError) -> JSONValue {
        let value = try parseValue()
        skipSpace()
        guard position == bytes.count else { throw failure("is followed by more text") }
        return value
    }

    private mutating func parseValue() throws(JSONError) -> JSONValue {
        skipSpace()
        guard position < bytes.count else { throw failure("ends too early") }
        switch bytes[position] {
        case UInt8(ascii: "{"): return .object(try parseObject())
        case UInt8(ascii: "["): return .array(try parseArray())
        case UInt8(ascii: "\""): return .string(try parseString())
        case UInt8(ascii: "t"): return try parseWord("true", as: .bool(true))
        case UInt8(ascii: "f"): return try parseWord("false", as: .bool(false))
        case UInt8(ascii: "n"): return try parseWord("null", as: .null)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try parseNumber())
        default: throw failure("is not JSON")
        }
    }

    private mutating func parseObject() throws(JSONError) -> JSONObject {
        try enter()
        var members: [JSONObject.Member] = []
        var seen: Set<[UInt8]> = []
        if skip(UInt8(ascii: "}")) { return JSONObject() }
        repeat {
            skipSpace()
            guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else {
                throw failure("needs a key in quotes")
            }
            let start = position
            let key = try parseString()
            steps.append(.key(key))
            guard seen.insert(Array(key.utf8)).inserted else { throw failure("is given twice", at: start) }
            guard skip(UInt8(ascii: ":")) else { throw failure("needs a colon after the key") }
            members.append(JSONObject.Member(key: key, value: try parseValue()))
            steps.removeLast()
        } while skip(UInt8(ascii: ","))
        guard skip(UInt8(ascii: "}")) else { throw failure("needs a comma or a closing brace") }
        return JSONObject(members: members)
    }

    private mutating func parseArray() throws(JSONError) -> [JSONValue] {
        try enter()
        var elements: [JSONValue] = []
        if skip(UInt8(ascii: "]")) { return elements }
        repeat {
            steps.append(.index(elements.count))
            elements.append(try parseValue())
            steps.removeLast()
        } while skip(UInt8(ascii: ","))
        guard skip(UInt8(ascii: "]")) else { throw failure("needs a comma or a closing bracket") }
        return elements
    }

    /// Steps over an opening brace or bracket. The depth is the number of steps from the root.
    private mutating func enter() throws(JSONError) {
        guard steps.count < JSONValue.depthLimit else {
            throw failure("is nested deeper than \(JSONValue.depthLimit) levels")
        }
        position += 1
    }

    private mutating func parseString() throws(JSONError) -> String {
        let start = position
        position += 1
        var unescaped: [UInt8] = []
        var runStart = position
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                unescaped.append(contentsOf: bytes[runStart..<position])
                position += 1
                guard let text = String(validating: unescaped, as: UTF8.self) else {
                    throw failure("is not valid UTF-8", at: start)
                }
                return text
            case UInt8(ascii: "\\"):
                unescaped.append(contentsOf: bytes[runStart..<position])
                try parseEscape(into: &unescaped)
                runStart = position
            case 0: throw failure("holds U+0000, which cannot be stored")
            case 0..<0x20: throw failure("holds a control character that is not escaped")
            default: position += 1
            }
        }
        throw failure("has a text without its closing quote", at: start)
    }

    private mutating func parseEscape(into unescaped: inout [UInt8]) throws(JSONError) {
        let start = position
        guard position + 1 < bytes.count else { throw failure("ends too early") }
        let letter = bytes[position + 1]
        position += 2
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): unescaped.append(letter)
        case UInt8(ascii: "b"): unescaped.append(0x08)
        case UInt8(ascii: "f"): unescaped.append(0x0C)
        case UInt8(ascii: "n"): unescaped.append(0x0A)
        case UInt8(ascii: "r"): unescaped.append(0x0D)
        case UInt8(ascii: "t"): unescaped.append(0x09)
        case UInt8(ascii: "u"): unescaped.append(contentsOf: String(try parseUnicodeEscape(from: start)).utf8)
        default: throw failure("holds an unknown escape", at: start)
        }
    }

    /// Reads the digits after `\u`, and the second half of a surrogate pair.
    private mutating func parseUnicodeEscape(from start: Int) throws(JSONError) -> Unicode.Scalar {
        let unit = try parseFourHexDigits()
        if unit == 0 { throw failure("holds U+0000, which cannot be stored", at: start) }
        if let scalar = Unicode.Scalar(unit) { return scalar }
        let pairFollows =
            position + 1 < bytes.count && bytes[position] == UInt8(ascii: "\\")
            && bytes[position + 1] == UInt8(ascii: "u")
        guard unit < 0xDC00, pairFollows else { throw failure("holds half of a surrogate pair", at: start) }
        position += 2
        let low = try parseFourHexDigits()
        guard (0xDC00...0xDFFF).contains(low),
            let scalar = Unicode.Scalar(0x10000 + (UInt32(unit) - 0xD800) << 10 + (UInt32(low) - 0xDC00))
        else { throw failure("holds half of a surrogate pair", at: start) }
        return scalar
    }

    private mutating func parseFourHexDigits() throws(JSONError) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard position < bytes.count, let digit = Hex.value(ofDigit: bytes[position]) else {
                throw failure("needs four hex digits after \\u")
            }
            unit = unit << 4 | UInt16(digit)
            position += 1
        }
        return unit
    }

    private mutating func parseNumber() throws(JSONError) -> JSONNumber {
        let start = position
        if bytes[position] == UInt8(ascii: "-") { position += 1 }
        let integerStart = position
        guard skipDigits() else { throw failure("holds a number without digits", at: start) }
        if bytes[integerStart] == UInt8(ascii: "0"), position > integerStart + 1 {
            throw failure("holds a number with a leading zero", at: start)
        }
        if position < bytes.count, bytes[position] == UInt8(ascii: ".") {
            position += 1
            guard skipDigits() else { throw failure("holds a number without digits after the point", at: start) }
        }
        if position < bytes.count, bytes[position] | 0x20 == UInt8(ascii: "e") {
            position += 1
            if position < bytes.count, bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-") {
                position += 1
            }
            guard skipDigits() else { throw failure("holds a number without an exponent", at: start) }
        }
        return JSONNumber(lexeme: String(decoding: bytes[start..<position], as: UTF8.self))
    }

    private mutating func skipDigits() -> Bool {
        let start = position
        while position < bytes.count, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position]) {
            position += 1
        }
        return position > start
    }

    private mutating func parseWord(_ word: StaticString, as value: JSONValue) throws(JSONError) -> JSONValue {
        let text = "\(word)".utf8
        guard bytes[position...].starts(with: text) else { throw failure("is not JSON") }
        position += text.count
        return value
    }

    /// Steps over spaces and then over `byte`; says whether it was there.
    private mutating func skip(_ byte: UInt8) -> Bool {
        skipSpace()
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    private mutating func skipSpace() {
        while position < bytes.count, Self.isSpace(bytes[position]) {
            position += 1
        }
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }

    private func failure(_ problem: String, at offset: Int? = nil) -> JSONError {
        let path = steps.reduce(into: root) { path, step in
            switch step {
            case .key(let key): path += ".\(key)"
            case .index(let index): path += "[\(index)]"
            }
        }
        return JSONError(offset: offset ?? position, path: path, problem: problem)
    }
}
