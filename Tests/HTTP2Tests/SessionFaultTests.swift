import Testing

@testable import HTTP2

/// What a peer may not do, and whether a stream or the whole connection ends for it (RFC 9113).
@Suite struct SessionFaultTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let bytes: [UInt8]
        let code: ErrorCode

        init(_ name: String, _ code: ErrorCode, _ bytes: [UInt8]) {
            self.name = name
            self.bytes = bytes
            self.code = code
        }

        var testDescription: String { name }
    }

    // Streams 1, 3 and 5 are open; none above.
    static let connectionFaults: [Case] = [
        Case("DATA without a stream", .protocolError, Wire.frame(0, on: 0)),
        Case("HEADERS without a stream", .protocolError, Wire.headers(0, [(":status", "200")])),
        Case("PRIORITY without a stream", .protocolError, Wire.frame(2, on: 0, [0, 0, 0, 0, 1])),
        Case("RST_STREAM without a stream", .protocolError, Wire.reset(0)),
        Case("CONTINUATION without HEADERS", .protocolError, Wire.frame(9, 4, on: 1, [0x88])),
        Case("HEADERS on a stream of the server", .protocolError, Wire.headers(2, [(":status", "200")])),
        Case("HEADERS on an idle stream", .protocolError, Wire.headers(7, [(":status", "200")])),
        Case("HEADERS begun on an idle stream", .protocolError, Wire.frame(1, 0, on: 7, [0x88])),
        Case("DATA on an idle stream", .protocolError, Wire.data(7, "x")),
        Case("RST_STREAM on an idle stream", .protocolError, Wire.reset(7)),
        Case("WINDOW_UPDATE on an idle stream", .protocolError, Wire.windowUpdate(7, 1)),
        Case("RST_STREAM of 5 bytes", .frameSize, Wire.frame(3, on: 1, [0, 0, 0, 0, 0])),
        Case("SETTINGS on a stream", .protocolError, Wire.frame(4, on: 1)),
        Case("SETTINGS of 5 bytes", .frameSize, Wire.frame(4, on: 0, [0, 1, 0, 0, 0])),
        Case("SETTINGS ACK with content", .frameSize, Wire.frame(4, 1, on: 0, [0, 1, 0, 0, 0, 0])),
        Case("two SETTINGS ACK", .protocolError, Wire.frame(4, 1, on: 0) + Wire.frame(4, 1, on: 0)),
        Case("SETTINGS that allow a push", .protocolError, Wire.settings([(2, 1)])),
        Case("SETTINGS with a window of 2^31", .flowControl, Wire.settings([(4, 1 << 31)])),
        Case(
            "SETTINGS that move a window too far",
            .flowControl,
            Wire.windowUpdate(1, 1) + Wire.settings([(4, 1 << 31 - 1)])
        ),
        Case("SETTINGS with frames of 16383", .protocolError, Wire.settings([(5, 16_383)])),
        Case("SETTINGS with frames of 2^24", .protocolError, Wire.settings([(5, 1 << 24)])),
        Case("PING on a stream", .protocolError, Wire.frame(6, on: 1, [0, 0, 0, 0, 0, 0, 0, 0])),
        Case("PING of 7 bytes", .frameSize, Wire.frame(6, on: 0, [0, 0, 0, 0, 0, 0, 0])),
        Case("GOAWAY on a stream", .protocolError, Wire.frame(7, on: 1, [0, 0, 0, 1, 0, 0, 0, 0])),
        Case("GOAWAY of 7 bytes", .frameSize, Wire.frame(7, on: 0, [0, 0, 0, 1, 0, 0, 0])),
        Case("GOAWAY with a stream of the server", .protocolError, Wire.goAway(4)),
        Case("GOAWAY that rises", .protocolError, Wire.goAway(3) + Wire.goAway(5)),
        Case("WINDOW_UPDATE of 3 bytes", .frameSize, Wire.frame(8, on: 1, [0, 0, 1])),
        Case("WINDOW_UPDATE of 0", .protocolError, Wire.windowUpdate(0, 0)),
        Case("a connection's window beyond 2^31-1", .flowControl, Wire.windowUpdate(0, 1 << 31 - 1)),
        Case("PUSH_PROMISE", .protocolError, Wire.frame(5, 4, on: 1, [0, 0, 0, 2, 0x82])),
        Case("a block that PING interrupts", .protocolError, Wire.frame(1, 0, on: 1, [0x88]) + Wire.ping()),
        Case(
            "a block that goes on elsewhere",
            .protocolError,
            Wire.frame(1, 0, on: 1, [0x88]) + Wire.frame(9, 4, on: 3)
        ),
        Case("a frame of 16385 bytes", .frameSize, Wire.frame(0, on: 1, [UInt8](repeating: 0, count: 16_385))),
        Case("padding of DATA beyond its frame", .protocolError, Wire.frame(0, 8, on: 1, [3, 0, 0])),
        Case("padding of HEADERS beyond its frame", .protocolError, Wire.frame(1, 0xC, on: 1, [2, 0x88])),
        Case("padding without its length", .protocolError, Wire.frame(0, 8, on: 1)),
        Case("HEADERS with half a priority", .frameSize, Wire.frame(1, 0x24, on: 1, [0, 0, 0, 0])),
        Case("an index that no table has", .compression, Wire.frame(1, 5, on: 1, [0xFF, 0x7F])),
        Case("a literal cut short", .compression, Wire.frame(1, 5, on: 1, [0x88, 0x00, 5, 0x61])),
        Case("a header of an idle table size", .compression, Wire.frame(1, 5, on: 1, [0x3F, 0xE2, 0x1F, 0x88])),
    ]

    @Test(arguments: connectionFaults)
    func `the connection ends with the code of`(fault: Case) throws {
        for size in [Int.max, 1, 7] {
            let rig = try SessionRig()
            rig.open(try SessionRig.makeBatch(3))
            #expect(rig.receive(fault.bytes, cutAt: size) == fault.code)
        }
    }

    @Test(arguments: [
        Case("PING", .protocolError, Wire.ping()),
        Case("SETTINGS ACK", .protocolError, Wire.frame(4, 1, on: 0)),
        Case("HTTP/1.1", .frameSize, Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)),
        Case("a frame of an unknown kind", .protocolError, Wire.frame(99, on: 0)),
    ])
    func `a peer that does not begin with SETTINGS is refused`(first: Case) throws {
        #expect(try SessionRig(greeted: false).receive(first.bytes) == first.code)
    }

    @Test func `a peer that has no room may say goodbye first`() throws {
        let rig = try SessionRig(greeted: false)
        #expect(rig.receive(Wire.goAway(0, 11)) == nil && rig.goAways == [11])
    }

    // MARK: Streams

    static let ok = (":status", "200")
    static let streamFaults: [Case] = [
        Case("no status", .protocolError, Wire.headers(1, [("apns-id", "x")])),
        Case("nothing at all", .protocolError, Wire.headers(1, [])),
        Case("two statuses", .protocolError, Wire.headers(1, [ok, ok])),
        Case("a status of two digits", .protocolError, Wire.headers(1, [(":status", "20")])),
        Case("a status of letters", .protocolError, Wire.headers(1, [(":status", "2OO")])),
        Case("a status below 100", .protocolError, Wire.headers(1, [(":status", "099")])),
        Case("status 101", .protocolError, Wire.headers(1, [(":status", "101")], flags: 4)),
        Case("a status after a field", .protocolError, Wire.headers(1, [("a", "b"), ok])),
        Case("a pseudo field of requests", .protocolError, Wire.headers(1, [ok, (":path", "/")])),
        Case("a capital letter", .protocolError, Wire.headers(1, [ok, ("Apns-id", "x")])),
        Case("a blank in a name", .protocolError, Wire.headers(1, [ok, ("apns id", "x")])),
        Case("a name of no letters", .protocolError, Wire.headers(1, [ok, ("", "x")])),
        Case("a line break in a value", .protocolError, Wire.headers(1, [ok, ("a", "b\nc")])),
        Case("a value that ends with a blank", .protocolError, Wire.headers(1, [ok, ("a", "b ")])),
        Case("the field connection", .protocolError, Wire.headers(1, [ok, ("connection", "close")])),
        Case("the field transfer-encoding", .protocolError, Wire.headers(1, [ok, ("transfer-encoding", "chunked")])),
        Case("the field upgrade", .protocolError, Wire.headers(1, [ok, ("upgrade", "h2c")])),
        Case("an interim answer that ends", .protocolError, Wire.headers(1, [(":status", "103")])),
        Case("DATA before HEADERS", .protocolError, Wire.data(1, "x")),
        Case(
            "DATA after an interim answer",
            .protocolError,
            Wire.headers(1, [(":status", "103")], flags: 4) + Wire.data(1, "x")
        ),
        Case(
            "trailers that do not end",
            .protocolError,
            Wire.headers(1, [ok], flags: 4) + Wire.headers(1, [("a", "b")], flags: 4)
        ),
        Case("trailers with a status", .protocolError, Wire.headers(1, [ok], flags: 4) + Wire.headers(1, [ok])),
        Case(
            "a body shorter than announced",
            .protocolError,
            Wire.headers(1, [ok, ("content-length", "3")], flags: 4) + Wire.data(1, "ab")
        ),
        Case(
            "a body longer than announced",
            .protocolError,
            Wire.headers(1, [ok, ("content-length", "1")], flags: 4) + Wire.data(1, "ab")
        ),
        Case("no body though one was announced", .protocolError, Wire.headers(1, [ok, ("content-length", "1")])),
        Case(
            "two lengths",
            .protocolError,
            Wire.headers(1, [ok, ("content-length", "1"), ("content-length", "2")], flags: 4)
        ),
        Case("a length that is none", .protocolError, Wire.headers(1, [ok, ("content-length", "-1")], flags: 4)),
        Case("WINDOW_UPDATE of 0", .protocolError, Wire.windowUpdate(1, 0)),
        Case("a window beyond 2^31-1", .flowControl, Wire.windowUpdate(1, 1 << 31 - 1)),
        Case("PRIORITY of 4 bytes", .frameSize, Wire.frame(2, on: 1, [0, 0, 0, 1])),
    ]

    @Test(arguments: streamFaults)
    func `one stream is reset, and the others go on, after`(fault: Case) throws {
        for size in [Int.max, 1, 11] {
            let rig = try SessionRig()
            rig.open(try SessionRig.makeBatch(3))
            _ = rig.takeOutput()
            #expect(rig.receive(fault.bytes, cutAt: size) == nil)
            #expect(rig.closed.map(\.stream) == [1] && rig.closed.map(\.code) == [fault.code.value])
            #expect(
                rig.sentFrames().filter { $0.type == 3 } == [
                    Wire.Frame(type: 3, flags: 0, stream: 1, payload: Wire.number(Int(fault.code.value)))
                ]
            )
            #expect(rig.receive(Wire.headers(3, [Self.ok]) + Wire.headers(5, [Self.ok])) == nil)
            #expect(rig.closed.suffix(2).map(\.status) == [200, 200])
        }
    }

    // MARK: Floods

    static let floods: [Case] = [
        Case("PING", .enhanceYourCalm, Wire.ping()),
        Case("PING ACK", .enhanceYourCalm, Wire.ping(1)),
        Case("SETTINGS", .enhanceYourCalm, Wire.settings([(3, 5)])),
        Case("PRIORITY", .enhanceYourCalm, Wire.frame(2, on: 1, [0, 0, 0, 0, 1])),
        Case("WINDOW_UPDATE", .enhanceYourCalm, Wire.windowUpdate(1, 1)),
        Case("RST_STREAM of a stream that is over", .enhanceYourCalm, Wire.reset(5)),
        Case("HEADERS of a stream that is over", .enhanceYourCalm, Wire.headers(5, [ok])),
        Case("frames of an unknown kind", .enhanceYourCalm, Wire.frame(99, on: 0)),
        Case("GOAWAY", .enhanceYourCalm, Wire.goAway(1 << 31 - 1)),
        Case("interim answers", .enhanceYourCalm, Wire.headers(1, [(":status", "103")], flags: 4)),
        Case("empty DATA", .enhanceYourCalm, Wire.headers(1, [ok], flags: 4) + Wire.frame(0, on: 1)),
    ]

    @Test(arguments: floods)
    func `a flood is stopped:`(flood: Case) throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(3))
        #expect(rig.receive(Wire.headers(5, [Self.ok])) == nil)
        if flood.name == "empty DATA" { #expect(rig.receive(Wire.headers(1, [Self.ok], flags: 4)) == nil) }
        let bytes = flood.name == "empty DATA" ? Wire.frame(0, on: 1) : flood.bytes
        var code: ErrorCode?
        var frames = 0
        while code == nil, frames < 20_000 {
            frames += 1
            code = rig.receive(bytes)
            _ = rig.takeOutput()
        }
        #expect(code == flood.code && frames > 5000 && rig.hasLittleMemory)
        // The same in ten minutes harms nobody.
        let slow = try SessionRig()
        slow.open(try SessionRig.makeBatch(3))
        if flood.name == "empty DATA" { _ = slow.receive(Wire.headers(1, [Self.ok], flags: 4)) }
        _ = slow.receive(Wire.headers(5, [Self.ok]))
        for step in 0..<15_000 {
            let now = LoopTime(nanoseconds: Int64(step) * 40_000_000)
            guard slow.receive(bytes, now: now) == nil else {
                Issue.record("\(flood.name) ended the connection after \(step) frames")
                return
            }
            _ = slow.takeOutput()
        }
        #expect(slow.hasLittleMemory)
    }

    @Test func `empty CONTINUATION without an end is stopped`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(1))
        var code = rig.receive(Wire.frame(1, 0, on: 1, [0x88]))
        for _ in 0..<20_000 where code == nil { code = rig.receive(Wire.frame(9, 0, on: 1)) }
        #expect(code == .enhanceYourCalm && rig.hasLittleMemory)
    }

    @Test func `a header block beyond 64 KiB is not gathered`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(1))
        let piece = [UInt8](repeating: 0, count: 16_000)
        var code = rig.receive(Wire.frame(1, 0, on: 1, piece))
        for _ in 0..<3 { code = code ?? rig.receive(Wire.frame(9, 0, on: 1, piece)) }
        #expect(code == nil)
        #expect(rig.receive(Wire.frame(9, 0, on: 1, piece)) == .enhanceYourCalm)
        #expect(rig.hasLittleMemory)
    }

    @Test func `a small block that unfolds beyond 64 KiB is stopped`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(1))
        // A value of 3,000 bytes enters the table, and one byte each names it thirty times.
        var block: [UInt8] = [0x88, 0x40, 1, 0x61]
        block += HeaderBlockWriter.integer(3000, bits: 7, pattern: 0)
        block += [UInt8](repeating: 0x62, count: 3000) + [UInt8](repeating: 0xBE, count: 30)
        #expect(rig.receive(Wire.frame(1, 5, on: 1, block)) == .enhanceYourCalm && rig.hasLittleMemory)
    }

    @Test func `a peer that sends PING and does not read is cut off`() throws {
        let rig = try SessionRig()
        var code: ErrorCode?
        var second: Int64 = 0
        while code == nil, second < 100 {
            second += 1
            let pings = (0..<900).flatMap { _ in Wire.ping() }
            code = rig.receive(pings, now: LoopTime(nanoseconds: second * 1_000_000_000))
        }
        #expect(code == .enhanceYourCalm && rig.output.count < 512 * 1024 && rig.hasLittleMemory)
    }
}
