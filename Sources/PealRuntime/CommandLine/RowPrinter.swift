/// Prints rows as an aligned table, as CSV or as JSON lines, without holding more than one page of them.
package struct RowPrinter {
    /// How rows are written.
    package enum Format: String, Sendable, CaseIterable {
        case table, csv, jsonl
    }

    /// The option that every command with a list takes.
    package static let formatOption = Option(
        "format",
        "FORMAT",
        "how rows are printed",
        choices: Format.allCases.map(\.rawValue)
    )

    /// How wide a table is at most, if there are columns that it may shorten.
    package static let tableWidth = 120
    private static let shortestWidth = 12

    private let columns: [String]
    private let format: Format
    private let shortened: Set<String>
    private let write: (String) throws -> Void
    private var widths: [Int] = []
    /// The columns of a table in which something has stood.
    private var shown: [Int] = []
    private var printedHeader = false

    /// A printer of rows with these columns. `write` gets whole lines, by default for standard output.
    /// - Parameter shortened: columns of which a table shows only the end where it would be too wide otherwise.
    package init(
        columns: [String],
        format: Format,
        shortened: Set<String> = [],
        write: @escaping (String) throws -> Void = { text in try StandardOutput.write(text) }
    ) {
        self.columns = columns
        self.format = format
        self.shortened = shortened
        self.write = write
    }

    /// A printer in the format that `--format` names, a table when it was not given.
    package init(columns: [String], arguments: ParsedArguments, shortened: Set<String> = []) {
        let format = arguments.text("format").flatMap(Format.init(rawValue:)) ?? .table
        self.init(columns: columns, format: format, shortened: shortened)
    }

    /// Prints one page. A table takes its widths from its first page and widens them when a later one needs more room.
    /// It leaves out columns in which nothing stands; when a later page has something there, there is another header.
    package mutating func print(_ rows: [[Cell]]) throws {
        precondition(rows.allSatisfy { $0.count == columns.count }, "a row has as many cells as there are columns")
        var text = ""
        switch format {
        case .jsonl:
            for row in rows { text += JSONLine.object(Array(zip(columns, row))) + "\n" }
        case .csv:
            if !printedHeader { text += Self.csvLine(columns) }
            for row in rows { text += Self.csvLine(row.map(\.plainText)) }
        case .table:
            text = table(rows)
        }
        printedHeader = true
        if !text.isEmpty { try write(text) }
    }

    private mutating func table(_ rows: [[Cell]]) -> String {
        let texts = rows.map { row in row.map { TerminalText.line($0.plainText) } }
        if widths.isEmpty { widths = columns.map(TextWidth.of) }
        for row in texts {
            for (index, text) in row.enumerated() { widths[index] = max(widths[index], TextWidth.of(text)) }
        }
        let filled = columns.indices.filter { index in
            rows.isEmpty || shown.contains(index) || texts.contains { !$0[index].isEmpty }
        }
        let isNew = filled != shown
        shown = filled
        narrow()
        var result = ""
        if isNew || !printedHeader {
            result += tableLine(columns.map { $0.uppercased() }, alignRight: columns.map { _ in false })
        }
        for (row, cells) in zip(texts, rows) {
            result += tableLine(row, alignRight: cells.map { if case .number = $0 { true } else { false } })
        }
        return result
    }

    /// Takes from the widest of the columns that may be shortened what is too much.
    private mutating func narrow() {
        while true {
            let excess = shown.reduce(-2) { $0 + widths[$1] + 2 } - Self.tableWidth
            let candidates = shown.filter { shortened.contains(columns[$0]) && widths[$0] > leastWidth(of: $0) }
            guard excess > 0, let widest = candidates.max(by: { widths[$0] < widths[$1] }) else { return }
            widths[widest] = max(leastWidth(of: widest), widths[widest] - excess)
        }
    }

    private func leastWidth(of index: Int) -> Int {
        max(Self.shortestWidth, TextWidth.of(columns[index]))
    }

    private func tableLine(_ texts: [String], alignRight: [Bool]) -> String {
        var line = ""
        for index in shown {
            let text = TextWidth.end(of: texts[index], within: widths[index])
            let padding = String(repeating: " ", count: widths[index] - TextWidth.of(text))
            line += (index == shown.first ? "" : "  ") + (alignRight[index] ? padding + text : text + padding)
        }
        while line.last == " " { line.removeLast() }
        return line + "\n"
    }

    /// One line of CSV, with a newline.
    static func csvLine(_ fields: [String]) -> String {
        fields.map(csvField).joined(separator: ",") + "\n"
    }

    private static func csvField(_ text: String) -> String {
        let mustQuote = text.utf8.contains { $0 == 0x22 || $0 == 0x2C || $0 == 0x0A || $0 == 0x0D }
        guard mustQuote || text.first == " " || text.last == " " else { return text }
        return "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }
}

/// How many columns of a terminal a text takes.
enum TextWidth {
    static func of(_ text: String) -> Int {
        text.reduce(0) { $0 + width(of: $1) }
    }

    /// The whole text if there is room for it, else its end after an ellipsis.
    static func end(of text: String, within width: Int) -> String {
        guard of(text) > width else { return text }
        var end: [Character] = []
        var left = width - 1
        for character in text.reversed() {
            left -= self.width(of: character)
            if left < 0 { break }
            end.append(character)
        }
        return "…" + String(end.reversed())
    }

    /// East Asian wide characters and emoji take two columns; the ranges are the common blocks, not the whole standard.
    private static func width(of character: Character) -> Int {
        guard let scalar = character.unicodeScalars.first else { return 0 }
        switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
            0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
            return 2
        default: return 1
        }
    }
}
