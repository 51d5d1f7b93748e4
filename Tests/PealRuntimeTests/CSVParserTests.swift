import PealRuntime
import Testing

@Suite struct CSVParserTests {
    private struct Parsed: Equatable {
        var line: Int
        var fields: [String]
        init(_ line: Int, _ fields: [String]) {
            self.line = line
            self.fields = fields
        }
    }

    /// Parses the text in chunks of every size, so that each boundary falls everywhere once.
    private func parse(_ text: String) throws -> [Parsed] {
        try parse(Array(text.utf8))
    }

    private func parse(_ bytes: [UInt8]) throws -> [Parsed] {
        let whole = try parse(bytes, chunk: max(1, bytes.count))
        for size in 1...max(1, min(bytes.count, 24)) {
            #expect(try parse(bytes, chunk: size) == whole, "chunks of \(size)")
        }
        return whole
    }

    private func parse(_ bytes: [UInt8], chunk: Int) throws -> [Parsed] {
        var rows: [Parsed] = []
        var parser = CSVParser()
        let take = { (row: CSVParser.Row) in rows.append(Parsed(row.line, (0..<row.count).map(row.text))) }
        for start in stride(from: 0, to: bytes.count, by: chunk) {
            try parser.parse(bytes[start..<min(bytes.count, start + chunk)], take)
        }
        try parser.finish(take)
        return rows
    }

    @Test(arguments: ["\n", "\r\n", "\r"])
    func `rows end with LF, CRLF or CR, the last one with nothing at all`(newline: String) throws {
        let rows = try parse(["a,b", "1,2", "3,"].joined(separator: newline))
        #expect(rows == [Parsed(1, ["a", "b"]), Parsed(2, ["1", "2"]), Parsed(3, ["3", ""])])
        let ended = try parse(["a,b", "1,2", "3,"].joined(separator: newline) + newline)
        #expect(ended == rows)
    }

    @Test func `a byte order mark is not part of the first column`() throws {
        #expect(
            try parse("\u{FEFF}token,external_id\nt,u\n") == [
                Parsed(1, ["token", "external_id"]), Parsed(2, ["t", "u"]),
            ]
        )
    }

    @Test func `a quoted field holds separators, line breaks and doubled quotes`() throws {
        let rows = try parse("a,b\n\"x, \"\"y\"\"\nz\",\"\"\n\"last\"\nnext,1\n")
        #expect(
            rows == [
                Parsed(1, ["a", "b"]), Parsed(2, ["x, \"y\"\nz", ""]), Parsed(4, ["last"]), Parsed(5, ["next", "1"]),
            ]
        )
    }

    @Test func `a row that is one empty quoted field is a row, a blank line is none`() throws {
        #expect(try parse("a\n\n\"\"\n\r\nb") == [Parsed(1, ["a"]), Parsed(3, [""]), Parsed(5, ["b"])])
        #expect(try parse("a\n\"\"") == [Parsed(1, ["a"]), Parsed(2, [""])])
    }

    @Test(arguments: [";", "\t"])
    func `semicolons and tabs are detected in the header`(separator: String) throws {
        let rows = try parse("token\(separator)\"a,b\"\nx\(separator)1,5\n")
        #expect(rows == [Parsed(1, ["token", "a,b"]), Parsed(2, ["x", "1,5"])])
    }

    @Test func `an open quote at the end of the file names the line where it opens`() {
        let error = #expect(throws: CSVError.self) { try parse("a,b\n1,2\n3,\"cut\noff") }
        #expect(error?.line == 3)
        #expect(error?.description.contains("cut off") == true)
    }

    @Test func `text after a closing quote is a fault of that row only`() throws {
        var faults: [String?] = []
        var parser = CSVParser()
        try parser.parse(Array("a,b\n\"x\"y,2\n3,4\n".utf8)[...]) { faults.append($0.fault) }
        #expect(faults == [nil, "text after a closing quote in field 1", nil])
    }

    @Test func `the last row says that no line break ended it`() throws {
        var ends: [Bool] = []
        var parser = CSVParser()
        try parser.parse(Array("a,b\n1".utf8)[...]) { ends.append($0.endsWithFile) }
        try parser.finish { ends.append($0.endsWithFile) }
        #expect(ends == [false, true])
    }

    @Test func `UTF-16 is refused with what to do`() {
        let error = #expect(throws: CSVError.self) { try parse([0xFF, 0xFE, 0x61, 0x00, 0x0A, 0x00]) }
        #expect(error?.description == "line 1: the file is UTF-16: save it as UTF-8")
    }

    @Test(arguments: ["sep=;\r\ntoken;channel\r\n", "\u{FEFF}SEP=,\ntoken,channel\n"])
    func `a first line for Excel is refused with what to do`(text: String) {
        let error = #expect(throws: CSVError.self) { try parse(text) }
        #expect(error?.line == 1)
        #expect(error?.description.contains("remove that line") == true)
    }

    @Test func `a row that never ends is refused before it fills the memory`() {
        let error = #expect(throws: CSVError.self) {
            try parse(Array("a,b\n1,\"".utf8) + [UInt8](repeating: 0x61, count: 2_000_000), chunk: 65_536)
        }
        #expect(error?.line == 2)
    }

    @Test func `an empty file has no rows`() throws {
        #expect(try parse("").isEmpty)
        #expect(try parse("\n\n").isEmpty)
    }
}
