import Glibc
import HTTP2
import OpenSSL
import PushCore
import Testing

/// What a peer can do to us costs at most its own connection: every request ends, memory stays, others go on.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct HostileTests {
    struct Attack: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let script: HostileServer.Script
        /// Requests may be sure not to have been processed.
        var provesUntouched = false

        init(_ name: String, provesUntouched: Bool = false, _ change: (inout HostileServer.Script) -> Void) {
            testDescription = name
            self.provesUntouched = provesUntouched
            var script = HostileServer.Script()
            change(&script)
            self.script = script
        }
    }

    private static func answering(_ name: String, _ answer: @escaping @Sendable (UInt32) -> [UInt8]) -> Attack {
        Attack(name) { $0.answer = answer }
    }

    private static func flooding(_ name: String, _ flood: [UInt8]) -> Attack {
        Attack(name) { $0.flood = flood }
    }

    private static let zeros = [UInt8](repeating: 0, count: 16_384)
    /// 4,000 bytes that enter the dynamic table, and 16,000 references to them in a frame.
    private static let bombEntry: [UInt8] =
        [0x40, 1, 0x78, 0x7F, 0xA1, 0x1E] + [UInt8](repeating: 0x61, count: 4000)
    private static let bombReferences = [UInt8](repeating: 0xBE, count: 16_000)

    static let frames: [Attack] = [
        Attack("HTTP/1.1") { $0.greeting = Array("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".utf8) },
        Attack("no SETTINGS, PINGs instead") {
            $0.greeting = (0..<5000).flatMap { _ in Frame.make(6, [UInt8](repeating: 7, count: 8)) }
        },
        answering("SETTINGS of a wrong length") { _ in Frame.make(4, [1, 2, 3, 4, 5]) },
        answering("a frame of 16 MiB") { stream in Frame.head(0xFF_FFFF, 0, 0, stream) + zeros },
        answering("SETTINGS on a stream") { stream in Frame.make(4, stream: stream) },
        answering("PRIORITY of a wrong length") { stream in Frame.make(2, stream: stream, [1]) },
        answering("a push") { stream in Frame.make(5, flags: 4, stream: stream, Frame.word(2) + [0x82, 0x87, 0x84]) },
        answering("HEADERS on a stream of its own") { _ in Frame.headers(2) },
        answering("HEADERS on a stream that was never opened") { stream in Frame.headers(stream + 1000) },
        answering("DATA without HEADERS") { stream in Frame.data(stream, [1]) },
        answering("an answer without a status") { stream in Frame.headers(stream, Frame.field("a", "b"), ends: true) },
        answering("an answer that is only 100") { stream in Frame.headers(stream, [0x08, 3] + "100".utf8, ends: true) },
        answering("an impossible status") { stream in Frame.headers(stream, [0x08, 3] + "9x9".utf8, ends: true) },
        answering("RST_STREAM of a stream that was never opened") { stream in Frame.reset(stream + 1000, code: 2) },
        answering("a RST_STREAM for each request") { stream in Frame.reset(stream, code: 2) },
        answering("GOAWAY with a growing last stream") { stream in Frame.goAway(stream) + Frame.goAway(stream + 200) },
        answering("an interrupted header block") { stream in
            Frame.headers(stream, isWhole: false) + Frame.make(6, [UInt8](repeating: 7, count: 8))
        },
    ]

    static let windows: [Attack] = [
        answering("the connection's window overflows") { _ in Frame.windowUpdate(0, 0x7FFF_FFFF) },
        answering("a stream's window overflows") { stream in
            Frame.windowUpdate(stream, 0x7FFF_FFFF) + Frame.windowUpdate(stream, 0x7FFF_FFFF)
        },
        answering("a window grows by nothing") { _ in Frame.windowUpdate(0, 0) },
        answering("a window size that is too large") { _ in Frame.settings([(4, 0xFFFF_FFFF)]) },
        Attack("a window of zero for ever", provesUntouched: true) { $0.greeting = Frame.settings([(4, 0)]) },
        Attack("no stream allowed for ever", provesUntouched: true) { $0.greeting = Frame.settings([(3, 0)]) },
        flooding("DATA that never ends, on one stream", Frame.data(1, zeros)),
        Attack("a body that never ends") {
            $0.answer = { Frame.headers($0) }
            $0.flood = Frame.data(1, zeros)
        },
    ]

    static let headers: [Attack] = [
        answering("a broken header block") { stream in Frame.headers(stream, [0xFF, 0xFF, 0xFF, 0xFF, 0x7F]) },
        answering("an HPACK bomb") { stream in
            Frame.headers(stream, [0x88] + bombEntry, isWhole: false)
                + (0..<200).flatMap { _ in Frame.continuation(stream, bombReferences) }
        },
        Attack("a field of a megabyte") {
            $0.answer = { stream in
                Frame.headers(stream, [0x88, 0x00, 1, 0x78, 0x7F, 0x81, 0x88, 0x3F], isWhole: false)
                    + (0..<70).flatMap { _ in
                        Frame.continuation(stream, [UInt8](repeating: 0x61, count: 16_000))
                    }
            }
        },
        Attack("CONTINUATION without end") {
            $0.answer = { Frame.headers($0, [0x88], isWhole: false) }
            $0.flood = Frame.continuation(1, bombReferences.map { _ in 0x88 })
        },
        Attack("empty CONTINUATION without end") {
            $0.answer = { Frame.headers($0, [0x88], isWhole: false) }
            $0.flood = Frame.continuation(1, [])
        },
        Attack("a table size that changes without end") {
            $0.answer = { Frame.headers($0, [UInt8](repeating: 0x20, count: 16_000), ends: true) }
        },
    ]

    static let floods: [Attack] = [
        flooding("SETTINGS without end", Frame.settings([(3, 1), (3, 1000)])),
        flooding("PING without end", Frame.make(6, [UInt8](repeating: 7, count: 8))),
        flooding("unknown frames without end", Frame.make(0xEE, zeros)),
        flooding("GOAWAY without end", Frame.goAway(0x7FFF_FFFF)),
        flooding("RST_STREAM without end", Frame.reset(1, code: 8)),
        flooding("empty DATA without end", Frame.data(1, [])),
        flooding("WINDOW_UPDATE without end", Frame.windowUpdate(1, 1)),
    ]

    static let ends: [Attack] = [
        Attack("TCP ends without a word of TLS") { $0.hangsUp = true },
        Attack("half of a TLS record") { $0.raw = [0x17, 3, 3, 0x40, 0, 1, 2, 3] },
        Attack("what is no TLS record") { $0.raw = Array("what is this?".utf8) },
    ]

    @Test(arguments: frames + windows + headers + floods + ends)
    func `an attack costs its own connection and nothing else`(attack: Attack) async throws {
        let server = try HostileServer(attack.script)
        let rig = try Rig()
        var configuration = PoolConfiguration(
            host: "localhost",
            port: server.port,
            tls: try TLSContext(trustingAlso: server.caFile)
        )
        configuration.backoff = Backoff(first: .milliseconds(5), longest: .milliseconds(20))
        configuration.maximumConnections = 1
        configuration.initialStreams = 20
        configuration.connectPatience = .milliseconds(300)
        configuration.handshakeTimeout = .milliseconds(300)
        configuration.drainLimit = .milliseconds(300)
        let pool = rig.client.makePool(configuration)
        let before = residentBytes()
        let batch = try rig.makeBatch((0..<20).map(Rig.token), timeLimit: .milliseconds(300))
        rig.client.submit(batch, tag: 2, to: pool)
        try rig.send(200)
        let seen = await rig.collector.wait(for: 220)
        let attacked = seen.filter { $0.tag == 2 }
        #expect(attacked.isEachOnce(20))
        #expect(attacked.allSatisfy { $0.kind != .answered && $0.kind != .expired && $0.kind != .cancelled })
        if attack.provesUntouched { #expect(attacked.allSatisfy { !$0.mayHaveBeenProcessed }) }
        let others = seen.filter { $0.tag == 1 }
        #expect(others.isEachOnce(200) && others.allSatisfy { $0.status == 200 })
        // The memory of the whole process, in which other suites run.
        #expect(residentBytes() - before < 512 << 20)
        await rig.end()
        server.stop()
    }

    /// A pool to a server that answers by hand, and what came back of one request to it.
    private func answer(
        of script: HostileServer.Script,
        configure: (inout PoolConfiguration) -> Void = { _ in }
    ) async throws -> Response {
        let rig = try ScriptedRig(script) {
            $0.responseFields = ["retry-after", "apns-id"]
            configure(&$0)
        }
        let response = try await rig.client.send(ScriptedRig.makeBatch(1), to: rig.pool)
        await rig.end()
        return response
    }

    @Test func `fields of a 1xx answer are not those of the answer`() async throws {
        let response = try await answer(
            of: HostileServer.Script(answer: { stream in
                Frame.headers(stream, [0x08, 3] + "103".utf8 + Frame.field("retry-after", "9"))
                    + Frame.headers(stream, [0x88] + Frame.field("retry-after", "1"), ends: true)
            })
        )
        #expect(response.status == 200 && response.fields[0] == "1")
    }

    @Test func `trailers change neither body nor fields`() async throws {
        let response = try await answer(
            of: HostileServer.Script(answer: { stream in
                Frame.headers(stream) + Frame.data(stream, Array("hello".utf8))
                    + Frame.headers(stream, Frame.field("apns-id", "late"), ends: true)
            })
        )
        #expect(response.status == 200 && response.body == Array("hello".utf8))
        #expect(response.fields[1] == nil)
    }

    @Test func `DATA after the end of a stream does not undo the answer`() async throws {
        let response = try await answer(
            of: HostileServer.Script(answer: { stream in
                Frame.headers(stream) + Frame.data(stream, Array("hello".utf8), ends: true)
                    + Frame.data(stream, Array("more".utf8), ends: true)
            })
        )
        #expect(response.status == 200 && response.body == Array("hello".utf8))
    }

    @Test func `of a huge body and a huge field only the beginning is kept`() async throws {
        let response = try await answer(
            of: HostileServer.Script(answer: { stream in
                let long =
                    [0x00, 7] + Array("apns-id".utf8) + [0x7F, 0xE9, 0x1E] + [UInt8](repeating: 0x61, count: 4072)
                return Frame.headers(stream, [0x88] + long)
                    + (0..<3).flatMap { _ in Frame.data(stream, Self.zeros) } + Frame.data(stream, [1], ends: true)
            })
        )
        #expect(response.status == 200 && response.body.count == 2048 && response.fields[1]?.utf8.count == 512)
    }
}

/// Memory of this process that is in RAM.
private func residentBytes() -> Int {
    guard let file = unsafe fopen("/proc/self/statm", "r") else { return 0 }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 128)
    guard unsafe fgets(&line, 128, file) != nil else { return 0 }
    let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    return (text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * 4096
}
