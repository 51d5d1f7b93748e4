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

    private static func answering(_ name: String, _ answer: @escaping @Sendable (Int) -> [UInt8]) -> Attack {
        Attack(name) { $0.answer = answer }
    }

    private static func flooding(_ name: String, _ flood: [UInt8]) -> Attack {
        Attack(name) { $0.flood = flood }
    }

    private static let ok = SessionTests.ok
    private static let zeros = [UInt8](repeating: 0, count: 16_384)
    /// 4,000 bytes that enter the dynamic table, and 16,000 references to them in a frame.
    private static let bombEntry: [UInt8] =
        [0x40, 1, 0x78, 0x7F, 0xA1, 0x1E] + [UInt8](repeating: 0x61, count: 4000)
    private static let bombReferences = [UInt8](repeating: 0xBE, count: 16_000)

    static let frames: [Attack] = [
        Attack("HTTP/1.1") { $0.greeting = Array("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".utf8) },
        Attack("no SETTINGS, PINGs instead") {
            $0.greeting = (0..<5000).flatMap { _ in Wire.ping() }
        },
        answering("SETTINGS of a wrong length") { _ in Wire.frame(4, on: 0, [1, 2, 3, 4, 5]) },
        answering("a frame of 16 MiB") { stream in Wire.head(0xFF_FFFF, 0, on: stream) + zeros },
        answering("SETTINGS on a stream") { stream in Wire.frame(4, on: stream) },
        answering("PRIORITY of a wrong length") { stream in Wire.frame(2, on: stream, [1]) },
        answering("a push") { stream in Wire.frame(5, 4, on: stream, Wire.number(2) + [0x82, 0x87, 0x84]) },
        answering("HEADERS on a stream of its own") { _ in Wire.headers(2, [ok], flags: 4) },
        answering("HEADERS on a stream that was never opened") { stream in Wire.headers(stream + 1000, [ok], flags: 4)
        },
        answering("DATA without HEADERS") { stream in Wire.data(stream, [1], flags: 0) },
        answering("an answer without a status") { stream in Wire.headers(stream, [("a", "b")]) },
        answering("an answer that is only 100") { stream in Wire.headers(stream, block: [0x08, 3] + "100".utf8) },
        answering("an impossible status") { stream in Wire.headers(stream, block: [0x08, 3] + "9x9".utf8) },
        answering("RST_STREAM of a stream that was never opened") { stream in Wire.reset(stream + 1000, 2) },
        answering("a RST_STREAM for each request") { stream in Wire.reset(stream, 2) },
        answering("GOAWAY with a growing last stream") { stream in Wire.goAway(stream) + Wire.goAway(stream + 200) },
        answering("an interrupted header block") { stream in
            Wire.headers(stream, [ok], flags: 0) + Wire.ping()
        },
    ]

    static let windows: [Attack] = [
        answering("the connection's window overflows") { _ in Wire.windowUpdate(0, 0x7FFF_FFFF) },
        answering("a stream's window overflows") { stream in
            Wire.windowUpdate(stream, 0x7FFF_FFFF) + Wire.windowUpdate(stream, 0x7FFF_FFFF)
        },
        answering("a window grows by nothing") { _ in Wire.windowUpdate(0, 0) },
        answering("a window size that is too large") { _ in Wire.settings([(4, 0xFFFF_FFFF)]) },
        Attack("a window of zero for ever", provesUntouched: true) { $0.greeting = Wire.settings([(4, 0)]) },
        Attack("no stream allowed for ever", provesUntouched: true) { $0.greeting = Wire.settings([(3, 0)]) },
    ]

    static let endless: [Attack] = [
        flooding("DATA that never ends, on one stream", Wire.data(1, zeros, flags: 0)),
        Attack("a body that never ends") {
            $0.answer = { Wire.headers($0, [ok], flags: 4) }
            $0.flood = Wire.data(1, zeros, flags: 0)
        },
    ]

    static let headers: [Attack] = [
        answering("a broken header block") { stream in
            Wire.headers(stream, block: [0xFF, 0xFF, 0xFF, 0xFF, 0x7F], flags: 4)
        },
        answering("an HPACK bomb") { stream in
            Wire.headers(stream, block: [0x88] + bombEntry, flags: 0)
                + (0..<200).flatMap { _ in Wire.continuation(stream, bombReferences) }
        },
        Attack("a field of a megabyte") {
            $0.answer = { stream in
                Wire.headers(stream, block: [0x88, 0x00, 1, 0x78, 0x7F, 0x81, 0x88, 0x3F], flags: 0)
                    + (0..<70).flatMap { _ in
                        Wire.continuation(stream, [UInt8](repeating: 0x61, count: 16_000))
                    }
            }
        },
        Attack("CONTINUATION without end") {
            $0.answer = { Wire.headers($0, [ok], flags: 0) }
            $0.flood = Wire.continuation(1, bombReferences.map { _ in 0x88 })
        },
        Attack("empty CONTINUATION without end") {
            $0.answer = { Wire.headers($0, [ok], flags: 0) }
            $0.flood = Wire.continuation(1, [])
        },
        Attack("a table size that changes without end") {
            $0.answer = { Wire.headers($0, block: [UInt8](repeating: 0x20, count: 16_000)) }
        },
    ]

    static let floods: [Attack] = [
        flooding("SETTINGS without end", Wire.settings([(3, 1), (3, 1000)])),
        flooding("PING without end", Wire.ping()),
        flooding("unknown frames without end", Wire.frame(0xEE, on: 0, zeros)),
        flooding("GOAWAY without end", Wire.goAway(0x7FFF_FFFF)),
        flooding("RST_STREAM without end", Wire.reset(1)),
        flooding("empty DATA without end", Wire.data(1, [], flags: 0)),
        flooding("WINDOW_UPDATE without end", Wire.windowUpdate(1, 1)),
    ]

    static let ends: [Attack] = [
        Attack("TCP ends without a word of TLS") { $0.hangsUp = true },
        Attack("half of a TLS record") { $0.raw = [0x17, 3, 3, 0x40, 0, 1, 2, 3] },
        Attack("what is no TLS record") { $0.raw = Array("what is this?".utf8) },
    ]

    /// A pool that loses no time with a server that means ill.
    static func poolUnderAttack(port: UInt16, caFile: String) throws -> PoolConfiguration {
        let tls = try TLSContext(trustingAlso: caFile)
        var configuration = PoolConfiguration(host: "localhost", port: port, tls: tls)
        configuration.backoff = Backoff(first: .milliseconds(5), longest: .milliseconds(20))
        configuration.maximumConnections = 1
        configuration.initialStreams = 20
        configuration.connectPatience = .milliseconds(300)
        configuration.handshakeTimeout = .milliseconds(300)
        configuration.drainLimit = .milliseconds(300)
        return configuration
    }

    @Test(arguments: frames + windows + endless + headers + floods + ends)
    func `an attack costs its own connection and nothing else`(attack: Attack) async throws {
        let server = try HostileServer(attack.script)
        let rig = try Rig()
        let pool = rig.client.makePool(try Self.poolUnderAttack(port: server.port, caFile: server.caFile))
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
                Wire.headers(stream, [(":status", "103"), ("retry-after", "9")], flags: 4)
                    + Wire.headers(stream, [Self.ok, ("retry-after", "1")])
            })
        )
        #expect(response.status == 200 && response.fields[0] == "1")
    }

    @Test func `trailers change neither body nor fields`() async throws {
        let response = try await answer(
            of: HostileServer.Script(answer: { stream in
                Wire.headers(stream, [Self.ok], flags: 4) + Wire.data(stream, "hello", flags: 0)
                    + Wire.headers(stream, [("apns-id", "late")])
            })
        )
        #expect(response.status == 200 && response.body == Array("hello".utf8))
        #expect(response.fields[1] == nil)
    }

    @Test func `DATA after the end of a stream does not undo the answer`() async throws {
        let response = try await answer(
            of: HostileServer.Script(answer: { stream in
                Wire.headers(stream, [Self.ok], flags: 4) + Wire.data(stream, "hello") + Wire.data(stream, "more")
            })
        )
        #expect(response.status == 200 && response.body == Array("hello".utf8))
    }

    @Test func `of a huge body and a huge field only the beginning is kept`() async throws {
        let response = try await answer(
            of: HostileServer.Script(answer: { stream in
                let long =
                    [0x00, 7] + Array("apns-id".utf8) + [0x7F, 0xE9, 0x1E] + [UInt8](repeating: 0x61, count: 4072)
                return Wire.headers(stream, block: [0x88] + long, flags: 4)
                    + (0..<3).flatMap { _ in Wire.data(stream, Self.zeros, flags: 0) } + Wire.data(stream, [1])
            })
        )
        #expect(response.status == 200 && response.body.count == 2048 && response.fields[1]?.utf8.count == 512)
    }
}
