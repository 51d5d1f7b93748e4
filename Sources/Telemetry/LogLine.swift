import PushCore

/// One line, before it is text.
struct LogLine {
    let time: WallClock.Instant
    let level: Logger.Level
    let message: StaticString
    let metadata: LogMetadata

    func append(to buffer: inout [UInt8], format: Logger.Format) {
        switch format {
        case .json: appendJSON(to: &buffer)
        case .text: appendText(to: &buffer)
        }
    }

    private func appendJSON(to buffer: inout [UInt8]) {
        buffer.append(contentsOf: #"{"time":""#.utf8)
        time.appendText(to: &buffer)
        buffer.append(contentsOf: #"","level":""#.utf8)
        buffer.append(contentsOf: level.rawValue.utf8)
        buffer.append(contentsOf: #"","message":"#.utf8)
        buffer.appendQuoted(message.description)
        for entry in metadata.entries {
            buffer.append(UInt8(ascii: ","))
            buffer.appendQuoted(entry.key.rawValue)
            buffer.append(UInt8(ascii: ":"))
            switch entry.value {
            case .text(let text): buffer.appendQuoted(text)
            case .integer(let value): buffer.append(contentsOf: String(value).utf8)
            case .real(let value) where value.isFinite: buffer.append(contentsOf: String(value).utf8)
            case .real(let value): buffer.appendQuoted(String(value))
            case .flag(let value): buffer.append(contentsOf: String(value).utf8)
            }
        }
        buffer.append(UInt8(ascii: "}"))
    }

    private func appendText(to buffer: inout [UInt8]) {
        time.appendText(to: &buffer)
        buffer.append(UInt8(ascii: " "))
        buffer.append(contentsOf: level.rawValue.utf8)
        buffer.append(UInt8(ascii: " "))
        buffer.append(contentsOf: message.description.utf8)
        for entry in metadata.entries {
            buffer.append(UInt8(ascii: " "))
            buffer.append(contentsOf: entry.key.rawValue.utf8)
            buffer.append(UInt8(ascii: "="))
            switch entry.value {
            case .text(let text) where text.isPlain: buffer.append(contentsOf: text.utf8)
            case .text(let text): buffer.appendQuoted(text)
            case .integer(let value): buffer.append(contentsOf: String(value).utf8)
            case .real(let value): buffer.append(contentsOf: String(value).utf8)
            case .flag(let value): buffer.append(contentsOf: String(value).utf8)
            }
        }
    }
}

extension String {
    /// Whether it can stand after `=` without quotes: printable ASCII, no space, quote or backslash, not empty.
    fileprivate var isPlain: Bool {
        !isEmpty && utf8.allSatisfy { 0x21...0x7E ~= $0 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }
}

extension [UInt8] {
    /// Adds a JSON string. Line ends are escaped, so that a value can never begin a line of its own.
    fileprivate mutating func appendQuoted(_ text: String) {
        append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                append(UInt8(ascii: "\\"))
                append(byte)
            case UInt8(ascii: "\n"):
                append(contentsOf: #"\n"#.utf8)
            case 0..<0x20, 0x7F:
                append(contentsOf: #"\u00"#.utf8)
                Hex.append(CollectionOfOne(byte), to: &self)
            default:
                append(byte)
            }
        }
        append(UInt8(ascii: "\""))
    }
}
