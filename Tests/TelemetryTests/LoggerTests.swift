import Glibc
import PushCore
import Telemetry
import Testing

@Suite struct LoggerTests {
    @Test func `a JSON line holds time, level, message and typed metadata`() throws {
        let lines = try linesWritten { output in
            let logger = makeLogger(format: .json, output: output).with([.jobID: "j-1"])
            logger.info("job completed", [.count: 12, .outcome: "a \"b\"\n\u{1}é", .path: true])
        }
        let expected =
            #"{"time":"2026-11-30T12:00:00.000001Z","level":"info","message":"job completed","#
            + #""job.id":"j-1","count":12,"outcome":"a \"b\"\n\u0001é","path":true}"#
        #expect(lines == [expected])
    }

    @Test func `a text line quotes only what needs it`() throws {
        let lines = try linesWritten { output in
            makeLogger(format: .text, output: output).error("no answer", [.host: "db.example", .errorMessage: "a b"])
        }
        #expect(lines == [#"2026-11-30T12:00:00.000001Z error no answer host=db.example error.message="a b""#])
    }

    @Test func `lines below the level are not written and their metadata is not made`() throws {
        let lines = try linesWritten { output in
            var logger = makeLogger(format: .text, output: output)
            logger.level = .warning
            logger.info("quiet", unreachableMetadata())
            logger.warning("loud")
        }
        #expect(lines.count == 1)
        #expect(lines.first?.hasSuffix("warning loud") == true)
    }

    @Test func `later metadata wins over that of the logger`() throws {
        let lines = try linesWritten { output in
            let logger = makeLogger(format: .text, output: output).with([.attempt: 1, .lane: "call"])
            logger.info("again", [.attempt: 2])
        }
        #expect(lines.first?.hasSuffix("again attempt=2 lane=call") == true)
    }

    @Test func `lines of several tasks never mix`() async throws {
        let pipe = try Pipe()
        let logger = makeLogger(format: .json, output: LogOutput(fileDescriptor: pipe.writeEnd))
        let filler = String(repeating: "x", count: 300)
        // 8 × 20 lines of about 400 bytes stay below the 64 KiB of the pipe.
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    for _ in 0..<20 { logger.info("line", [.path: .text(filler)]) }
                }
            }
        }
        let lines = pipe.readLines()
        #expect(lines.count == 160)
        #expect(lines.allSatisfy { $0.hasPrefix("{\"time\"") && $0.hasSuffix("x\"}") && $0.count < 500 })
    }

    @Test func `log keys are unique, dotted camelCase`() {
        for key in LogKey.allCases {
            let isCamelCase = key.rawValue.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { part in
                part.first?.isLowercase == true && part.allSatisfy { $0.isLetter && $0.isASCII }
            }
            #expect(isCamelCase, "\(key.rawValue)")
        }
    }

    @Test func `levels are read from their names and ordered`() {
        #expect(Logger.Level(rawValue: "debug") == .debug)
        #expect(Logger.Level(rawValue: "loud") == nil)
        #expect(Logger.Level.allCases == Logger.Level.allCases.sorted())
    }

    private func makeLogger(format: Logger.Format, output: LogOutput) -> Logger {
        Logger(level: .trace, format: format, output: output) {
            WallClock.Instant(secondsSinceEpoch: 1_796_040_000) + .microseconds(1)
        }
    }

    private func unreachableMetadata() -> LogMetadata {
        Issue.record("the metadata of a line that is not written was made")
        return [:]
    }

    private func linesWritten(_ body: (LogOutput) -> Void) throws -> [String] {
        let pipe = try Pipe()
        body(LogOutput(fileDescriptor: pipe.writeEnd))
        return pipe.readLines()
    }
}

/// Both ends of a pipe, closed with it.
private final class Pipe {
    let readEnd: Int32
    let writeEnd: Int32
    private var isWriteEndOpen = true

    init() throws {
        var ends: [2 of Int32] = [-1, -1]
        var span = ends.mutableSpan
        let result = unsafe span.withUnsafeMutableBufferPointer { unsafe pipe($0.baseAddress) }
        try #require(result == 0)
        readEnd = ends[0]
        writeEnd = ends[1]
    }

    deinit {
        if isWriteEndOpen { close(writeEnd) }
        close(readEnd)
    }

    func readLines() -> [String] {
        close(writeEnd)
        isWriteEndOpen = false
        var all: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe read(readEnd, &chunk, chunk.count)
            guard count > 0 else { break }
            all += chunk[..<count]
        }
        return String(decoding: all, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}
