extension ByteWriter {
    /// Appends a value as compact JSON: no spaces, raw UTF-8, numbers as they were spelt.
    package mutating func append(json value: JSONValue) {
        switch value {
        case .null: append("null")
        case .bool(let flag): append(flag ? "true" : "false")
        case .number(let number): append(number.lexeme)
        case .string(let text): append(jsonString: text)
        case .array(let elements):
            append(UInt8(ascii: "["))
            for (position, element) in elements.enumerated() {
                if position > 0 { append(UInt8(ascii: ",")) }
                append(json: element)
            }
            append(UInt8(ascii: "]"))
        case .object(let object): append(json: object)
        }
    }

    /// Appends an object as compact JSON.
    package mutating func append(json object: JSONObject) {
        append(UInt8(ascii: "{"))
        for (position, member) in object.members.enumerated() {
            if position > 0 { append(UInt8(ascii: ",")) }
            append(jsonString: member.key)
            append(UInt8(ascii: ":"))
            append(json: member.value)
        }
        append(UInt8(ascii: "}"))
    }

    /// Appends a text as a JSON string with its quotes.
    package mutating func append(jsonString text: String) {
        append(UInt8(ascii: "\""))
        append(jsonEscaping: text.utf8)
        append(UInt8(ascii: "\""))
    }

    /// Appends UTF-8 with what JSON demands escaped and nothing else: quote, backslash and controls below U+0020.
    package mutating func append(jsonEscaping utf8: some Sequence<UInt8>) {
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                append(UInt8(ascii: "\\"))
                append(byte)
            case 0x08: append(escape: "b")
            case 0x0C: append(escape: "f")
            case 0x0A: append(escape: "n")
            case 0x0D: append(escape: "r")
            case 0x09: append(escape: "t")
            case 0..<0x20:
                append(escape: "u")
                append(hex: UInt64(byte), digits: 4)
            default: append(byte)
            }
        }
    }

    private mutating func append(escape letter: Unicode.Scalar) {
        append(UInt8(ascii: "\\"))
        append(UInt8(ascii: letter))
    }
}

extension JSONValue {
    /// The value as compact JSON text.
    package var compactText: String {
        var writer = ByteWriter()
        writer.append(json: self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
