/// A streaming parser of CSV: fed with chunks of bytes, it calls back with rows. No I/O, and memory for one row only.
///
/// Understands RFC 4180 quotes with line breaks inside, LF, CRLF and CR, a byte order mark, and commas, semicolons or tabs
/// (whichever the first row has most of). Blank lines are skipped. Line numbers are those an editor shows, from 1.
package struct CSVParser: Sendable {
    /// One row, its fields with quotes removed. Valid only inside the callback: the next row reuses its memory.
    package struct Row: Sendable {
        /// The line that the row begins on.
        package fileprivate(set) var line = 1
        /// What is wrong with the row's form, or nil.
        package fileprivate(set) var fault: String?
        /// Whether the file ended before a line break ended the row.
        package fileprivate(set) var endsWithFile = false
        fileprivate(set) var bytes: [UInt8] = []
        fileprivate(set) var ends: [Int] = []

        /// The number of fields.
        package var count: Int { ends.count }

        /// The bytes of a field. O(1).
        package func field(_ index: Int) -> ArraySlice<UInt8> {
            bytes[(index == 0 ? 0 : ends[index - 1])..<ends[index]]
        }

        /// The text of a field, with invalid UTF-8 repaired.
        package func text(_ index: Int) -> String {
            String(decoding: field(index), as: UTF8.self)
        }

        fileprivate var isBlank: Bool { ends.isEmpty && bytes.isEmpty }

        fileprivate mutating func restart(line: Int) {
            self.line = line
            fault = nil
            endsWithFile = false
            bytes.removeAll(keepingCapacity: true)
            ends.removeAll(keepingCapacity: true)
        }
    }

    /// Where the parser is within a row.
    private enum State {
        /// Before the first byte of a field.
        case fieldStart
        /// Within a field that has no quotes; ends at a separator or a line break.
        case unquoted
        /// After an opening quote; separators and line breaks are text.
        case quoted
        /// After a quote within quotes: another quote makes it one, anything else ends the field.
        case quoteInQuoted
    }

    /// The longest row, in bytes. A longer one means an opening quote without an end, or not a CSV at all.
    package static let longestRowBytes = 1 << 20

    private var row = Row()
    private var state = State.fieldStart
    private var line = 1
    private var quoteLine = 1
    private var skipsLineFeed = false
    private var separator: UInt8?
    /// The bytes of the first line until it is complete and tells the separator.
    private var head: [UInt8] = []

    package init() {}

    /// Parses a chunk and calls `body` with each row that it completes. Throws `CSVError` when the file cannot be read on.
    package mutating func parse(_ chunk: ArraySlice<UInt8>, _ body: (Row) throws -> Void) throws {
        if let separator { return try scan(chunk, separator, body) }
        head += chunk
        guard head.contains(where: { $0 == .lineFeed || $0 == .carriageReturn }) else {
            if head.count > Self.longestRowBytes {
                throw CSVError(line: 1, "the first line is longer than 1 MiB: this is no CSV")
            }
            return
        }
        try scanHead(body)
    }

    /// Ends the file: completes a last row that has no line break. Throws when a quoted field is still open.
    package mutating func finish(_ body: (Row) throws -> Void) throws {
        if separator == nil { try scanHead(body) }
        if state == .quoted {
            throw CSVError(
                line: quoteLine,
                "a quote opens here and never ends: the file is cut off, or a quote is missing"
            )
        }
        guard !row.isBlank || state == .quoteInQuoted else { return }
        row.endsWithFile = true
        try endRow(body)
    }

    private mutating func scanHead(_ body: (Row) throws -> Void) throws {
        if head.starts(with: [0xFF, 0xFE]) || head.starts(with: [0xFE, 0xFF]) {
            throw CSVError(line: 1, "the file is UTF-16: save it as UTF-8")
        }
        let text = head.starts(with: [0xEF, 0xBB, 0xBF]) ? head.dropFirst(3) : head[...]
        if text.prefix(4).elementsEqual([0x73, 0x65, 0x70, 0x3D], by: { $0 | 0x20 == $1 | 0x20 }) {
            throw CSVError(
                line: 1,
                "the file begins with a 'sep=' line for Excel, which is no header: remove that line; "
                    + "commas, semicolons and tabs are told apart without it"
            )
        }
        let separator = Self.separator(of: text)
        self.separator = separator
        head = []
        try scan(text, separator, body)
    }

    private static func separator(of text: ArraySlice<UInt8>) -> UInt8 {
        var counts: [UInt8: Int] = [.comma: 0, .semicolon: 0, .tab: 0]
        var isQuoted = false
        for byte in text {
            if byte == .quote { isQuoted.toggle() }
            if isQuoted { continue }
            if byte == .lineFeed || byte == .carriageReturn { break }
            if counts[byte] != nil { counts[byte, default: 0] += 1 }
        }
        return [UInt8.comma, .semicolon, .tab].max { (counts[$0] ?? 0) < (counts[$1] ?? 0) } ?? .comma
    }

    private mutating func scan(_ chunk: ArraySlice<UInt8>, _ separator: UInt8, _ body: (Row) throws -> Void) throws {
        var index = chunk.startIndex
        if skipsLineFeed, index < chunk.endIndex {
            skipsLineFeed = false
            if chunk[index] == .lineFeed { index += 1 }
        }
        while index < chunk.endIndex {
            switch state {
            case .fieldStart where chunk[index] == .quote:
                state = .quoted
                quoteLine = line
                index += 1
            case .fieldStart, .unquoted:
                state = .unquoted
                let end = Self.endOfUnquoted(chunk, from: index, separator)
                row.bytes.append(contentsOf: chunk[index..<end])
                index = end
                if index < chunk.endIndex { try endField(chunk, &index, separator, body) }
            case .quoted:
                index = appendQuoted(chunk, from: index)
            case .quoteInQuoted where chunk[index] == .quote:
                row.bytes.append(.quote)
                state = .quoted
                index += 1
            case .quoteInQuoted:
                let byte = chunk[index]
                if byte == separator || byte == .lineFeed || byte == .carriageReturn {
                    try endField(chunk, &index, separator, body)
                } else {
                    row.fault = "text after a closing quote in field \(row.count + 1)"
                    state = .unquoted
                }
            }
            if row.bytes.count > Self.longestRowBytes {
                throw CSVError(line: row.line, "the row is longer than 1 MiB: a quote may be missing")
            }
        }
    }

    private static func endOfUnquoted(_ chunk: ArraySlice<UInt8>, from start: Int, _ separator: UInt8) -> Int {
        let bytes = chunk.span
        var offset = start - chunk.startIndex
        while offset < bytes.count {
            let byte = bytes[offset]
            if byte == separator || byte == .lineFeed || byte == .carriageReturn { break }
            offset += 1
        }
        return offset + chunk.startIndex
    }

    /// Takes over the text up to the next quote; counts the line breaks within, CRLF once.
    private mutating func appendQuoted(_ chunk: ArraySlice<UInt8>, from start: Int) -> Int {
        let bytes = chunk.span
        var offset = start - chunk.startIndex
        while offset < bytes.count, bytes[offset] != .quote {
            if bytes[offset] == .lineFeed { line += 1 }
            offset += 1
        }
        let end = offset + chunk.startIndex
        row.bytes.append(contentsOf: chunk[start..<end])
        guard end < chunk.endIndex else { return end }
        state = .quoteInQuoted
        return end + 1
    }

    /// At a separator or a line break: ends the field, and with a line break the row.
    private mutating func endField(
        _ chunk: ArraySlice<UInt8>,
        _ index: inout Int,
        _ separator: UInt8,
        _ body: (Row) throws -> Void
    ) throws {
        let byte = chunk[index]
        index += 1
        if byte == separator {
            row.ends.append(row.bytes.count)
            state = .fieldStart
            return
        }
        let isBlank = row.isBlank && state == .unquoted
        line += 1
        if byte == .carriageReturn {
            if index == chunk.endIndex {
                skipsLineFeed = true
            } else if chunk[index] == .lineFeed {
                index += 1
            }
        }
        if isBlank {
            row.restart(line: line)
            state = .fieldStart
        } else {
            try endRow(body)
        }
    }

    private mutating func endRow(_ body: (Row) throws -> Void) throws {
        row.ends.append(row.bytes.count)
        state = .fieldStart
        try body(row)
        row.restart(line: line)
    }
}

/// A file that cannot be read as CSV any further.
package struct CSVError: Error, Sendable, CustomStringConvertible {
    /// The line, from 1.
    package let line: Int
    /// What is wrong there.
    package let problem: String

    init(line: Int, _ problem: String) {
        self.line = line
        self.problem = problem
    }

    package var description: String { "line \(line): \(problem)" }
}

extension UInt8 {
    static let tab = UInt8(ascii: "\t")
    static let lineFeed = UInt8(ascii: "\n")
    static let carriageReturn = UInt8(ascii: "\r")
    static let quote = UInt8(ascii: "\"")
    static let comma = UInt8(ascii: ",")
    static let semicolon = UInt8(ascii: ";")
}
