import PealRuntime
import Synchronization
import Testing

@Suite struct RowPrinterTests {
    private func printed(
        _ format: RowPrinter.Format,
        _ pages: [[[Cell]]],
        columns: [String] = ["id", "name", "count"],
        shortened: Set<String> = []
    ) throws -> String {
        let text = Mutex("")
        var printer = RowPrinter(columns: columns, format: format, shortened: shortened) { part in
            text.withLock { $0 += part }
        }
        for page in pages { try printer.print(page) }
        return text.withLock { $0 }
    }

    @Test func `a table is aligned, numbers to the right`() throws {
        let text = try printed(.table, [[["a", "short", 7], ["bcd", "a longer name", 1234]]])
        #expect(
            text == """
                ID   NAME           COUNT
                a    short              7
                bcd  a longer name   1234

                """
        )
    }

    @Test func `a table keeps control characters away from the terminal`() throws {
        let text = try printed(.table, [[["a", "two\nlines\u{1B}[31m", .null]]])
        #expect(text.contains("two lines [31m"))
        let turned = try printed(.table, [[["a", "moc\u{202E}.exe\u{2066}\u{9B}2J", .null]]])
        #expect(turned.contains("moc .exe  2J"))
    }

    @Test func `a table leaves out columns in which nothing stands, csv does not`() throws {
        let pages: [[[Cell]]] = [[["a", .null, 1], ["b", "", 2]], [["c", "x", 3]]]
        #expect(
            try printed(.table, pages) == """
                ID  COUNT
                a       1
                b       2
                ID  NAME  COUNT
                c   x         3

                """
        )
        #expect(try printed(.csv, pages) == "id,name,count\na,,1\nb,,2\nc,x,3\n")
    }

    @Test func `a table that is too wide shows the end of what may be shortened`() throws {
        let long = String(repeating: "p", count: 150) + "END"
        let lines = try printed(
            .table,
            [[["a", .text(long), 1], ["b", "short", 2]]],
            shortened: ["name"]
        ).split(separator: "\n")
        #expect(lines.map(\.count) == [120, 120, 120])
        #expect(lines[1].hasPrefix("a   …pp") && lines[1].contains("ppEND  "))
        let whole = try printed(.table, [[["a", .text(long), 1]]])
        #expect(whole.contains(long), "only what was said to may be shortened")
        let odd = try printed(.table, [[["a", .text(String(repeating: "界", count: 80)), 1]]], shortened: ["name"])
        #expect(odd.contains("…界") && odd.split(separator: "\n")[1].count < 70)
    }

    @Test func `csv quotes what needs quoting, and has one header over all pages`() throws {
        let text = try printed(.csv, [[["a", "x,\"y\"\nz", 1]], [["b", .null, 2]]])
        #expect(text == "id,name,count\na,\"x,\"\"y\"\"\nz\",1\nb,,2\n")
    }

    @Test func `json lines keep types and escape control characters`() throws {
        let text = try printed(.jsonl, [[["a", "q\"\u{1}", 1], [.null, .json("{\"k\":1}"), .boolean(true)]]])
        #expect(
            text == """
                {"id":"a","name":"q\\"\\u0001","count":1}
                {"id":null,"name":{"k":1},"count":true}

                """
        )
    }

    @Test func `an empty table still has its header`() throws {
        #expect(try printed(.table, [[]]) == "ID  NAME  COUNT\n")
        #expect(try printed(.jsonl, [[]]) == "")
    }
}

@Suite struct ProgressLineTests {
    @Test func `a pipe gets plain lines, not more often than every two seconds`() {
        let text = Mutex("")
        let start = ContinuousClock.now
        var progress = ProgressLine("Importing", unit: "rows", now: start, isTerminal: false) { part in
            text.withLock { $0 += part }
        }
        progress.show(.init(done: 0, total: 1000), now: start)
        progress.show(.init(done: 100, total: 1000), now: start + .seconds(1))
        progress.show(.init(done: 500, total: 1000, note: "2 refused"), now: start + .seconds(2))
        progress.finish(.init(done: 1000, total: 1000), now: start + .seconds(3))
        #expect(
            text.withLock { $0 } == """
                Importing 0% 0 of 1,000 rows
                Importing 50% 500 of 1,000 rows, 250/s, 2.0s left, 2 refused
                Importing 100% 1,000 of 1,000 rows, 333/s

                """
        )
    }

    @Test func `rate and time left count from the first update, and from the first after a hold`() {
        let text = Mutex("")
        let start = ContinuousClock.now
        var progress = ProgressLine("Sending", unit: "recipients", now: start, isTerminal: false) { part in
            text.withLock { $0 += part }
        }
        progress.show(.init(done: 50, total: 100), now: start + .seconds(10))
        progress.show(.init(done: 60, total: 100), now: start + .seconds(11))
        progress.show(.init(done: 60, total: 100), now: start + .seconds(13))
        progress.show(.init(done: 70, total: 100, isHeld: true), now: start + .seconds(20))
        progress.show(.init(done: 70, total: 100), now: start + .seconds(1_000))
        progress.show(.init(done: 80, total: 100), now: start + .seconds(1_002))
        #expect(
            text.withLock { $0 } == """
                Sending 50% 50 of 100 recipients
                Sending 60% 60 of 100 recipients, 3/s, 12s left
                Sending 70% 70 of 100 recipients
                Sending 70% 70 of 100 recipients
                Sending 80% 80 of 100 recipients, 5/s, 4.0s left

                """
        )
        var other = ProgressLine(
            "Sending",
            unit: "recipients",
            now: start,
            isTerminal: true,
            write: { part in text.withLock { $0 = part } },
            columns: { nil }
        )
        other.show(.init(done: 50, total: 100), now: start)
        other.show(.init(done: 60, total: 100), now: start + .seconds(1))
        #expect(text.withLock { $0 }.hasSuffix("60 of 100 recipients, 10/s, 4.0s left"))
    }

    @Test(arguments: [
        (nil, "Sending [############------------] 50% 1 of 2 recipients, 1/s, 1.0s left"),
        (60, "Sending 50% 1 of 2 recipients, 1/s, 1.0s left"), (12, "Sending 50%"),
    ])
    func `a terminal gets a bar that redraws itself, as wide as there is room`(columns: Int?, line: String) {
        let text = Mutex("")
        let start = ContinuousClock.now
        var progress = ProgressLine(
            "Sending",
            unit: "recipients",
            beginsNow: true,
            now: start,
            isTerminal: true,
            write: { part in text.withLock { $0 += part } },
            columns: { columns }
        )
        progress.show(.init(done: 1, total: 2), now: start + .seconds(1))
        #expect(text.withLock { $0 } == "\r\u{1B}[K\(line)")
    }

    @Test func `what stands still has no time left`() {
        let text = Mutex("")
        let start = ContinuousClock.now
        var progress = ProgressLine("Sending", unit: "recipients", now: start, isTerminal: false) { part in
            text.withLock { $0 += part }
        }
        progress.show(.init(done: 1, total: 2, isHeld: true, note: "paused"), now: start + .seconds(1))
        #expect(text.withLock { $0 } == "Sending 50% 1 of 2 recipients, paused\n")
    }

    @Test(arguments: [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567"), (-4321, "-4,321")])
    func `numbers are grouped`(number: Int, text: String) {
        #expect(Digits.grouped(number) == text)
    }

    @Test(arguments: [(1.44, "1.4s"), (42.2, "42s"), (200.0, "3m 20s"), (7500.0, "2h 5m")])
    func `durations are short`(seconds: Double, text: String) {
        #expect(Digits.duration(seconds) == text)
    }
}
