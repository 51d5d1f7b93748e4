import PushCore

/// One field of a row that a command prints.
package enum Cell: Sendable, Equatable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    case null
    case text(String)
    case number(Int)
    case boolean(Bool)
    /// Text that is JSON already; it is written into a JSON line as it is.
    case json(String)

    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int) { self = .number(value) }

    /// A text or `null`.
    package init(_ text: String?) { self = text.map(Cell.text) ?? .null }

    /// A number or `null`.
    package init(_ number: Int?) { self = number.map(Cell.number) ?? .null }

    /// The words for a table or a CSV field.
    package var plainText: String {
        switch self {
        case .null: ""
        case .text(let text), .json(let text): text
        case .number(let number): String(number)
        case .boolean(let value): value ? "true" : "false"
        }
    }

    /// The words for a JSON value.
    var jsonText: String {
        switch self {
        case .null: "null"
        case .text(let text): JSONLine.quoted(text)
        case .json(let text): text
        case .number, .boolean: plainText
        }
    }
}

/// Writes JSON one line at a time.
package enum JSONLine {
    /// An object with its members in the order given, without a newline.
    package static func object(_ members: [(String, Cell)]) -> String {
        "{" + members.map { "\(quoted($0.0)):\($0.1.jsonText)" }.joined(separator: ",") + "}"
    }

    /// A JSON string with what must be escaped, escaped.
    package static func quoted(_ text: String) -> String {
        var writer = ByteWriter()
        writer.append(jsonString: text)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
