import TestSupport
import Testing

@testable import HTTP2

/// What the codec does with a peer that keeps to RFC 9113.
@Suite struct SessionTests {
    static let ok = (":status", "200")
    static let id = ("apns-id", "123e4567-e89b-12d3-a456-426614174000")

    // MARK: Answers

    @Test(arguments: [UInt8(0x00), 0x10, 0x40])
    func `an answer is the same wherever reads cut it, plain or through the table`(pattern: UInt8) throws {
        var bytes = Wire.headers(1, [Self.ok, Self.id], pattern: pattern)
        bytes += Wire.headers(3, [(":status", "400"), ("content-length", "5")], flags: 4, pattern: pattern)
        bytes += Wire.data(3, "hel", flags: 0) + Wire.data(3, "lo")
        bytes += Wire.headers(5, [(":status", "103"), ("link", "x")], flags: 4, pattern: pattern)
        bytes += Wire.headers(5, [Self.ok], flags: 4) + Wire.headers(5, [("trailer", "y")], pattern: pattern)
        for size in [Int.max] + Array(1...40) {
            let rig = try SessionRig()
            rig.open(try SessionRig.makeBatch(3))
            #expect(rig.receive(bytes, cutAt: size) == nil)
            #expect(rig.closed.map(\.stream) == [1, 3, 5] && rig.closed.allSatisfy { $0.code == 0 })
            #expect(rig.closed.map(\.status) == [200, 400, 200])
            #expect(rig.closed.map(\.body) == ["", "hello", ""])
            #expect(rig.closed[0].fields == ["apns-id: \(Self.id.1)"])
        }
    }

    @Test func `padding, priority and CONTINUATION change nothing`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(2))
        let block = Wire.block([Self.ok, Self.id], pattern: 0x40)
        let priority: [UInt8] = [3, 0x80, 0, 0, 9, 16]
        let padded = priority + block + [0, 0, 0]
        #expect(rig.receive(Wire.frame(1, 0x2D, on: 1, padded)) == nil)
        var pieces = Wire.frame(1, 0x1, on: 3, Array(block.prefix(4))) + Wire.frame(9, 0, on: 3)
        pieces += Wire.frame(9, 0, on: 3, Array(block.dropFirst(4).prefix(9)))
        pieces += Wire.frame(9, 4, on: 3, Array(block.dropFirst(13)))
        #expect(rig.receive(pieces) == nil)
        #expect(rig.closed.map(\.status) == [200, 200])
        #expect(rig.closed.allSatisfy { $0.fields == ["apns-id: \(Self.id.1)"] })
    }

    @Test func `what still comes for a stream that is over is ignored, and the decoder's table keeps step`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(2))
        #expect(rig.receive(Wire.headers(1, [Self.ok])) == nil)
        var late = Wire.headers(1, [Self.ok, ("entered", "late")], pattern: 0x40)
        late += Wire.data(1, "late") + Wire.reset(1) + Wire.windowUpdate(1, 5)
        #expect(rig.receive(late) == nil)
        // 62 is the field that the late block entered.
        #expect(rig.receive(Wire.frame(1, 5, on: 3, [0x88, 0xBE])) == nil)
        #expect(rig.closed.map(\.fields) == [[], ["entered: late"]])
    }

    @Test func `frames of unknown kinds, unknown settings and PRIORITY are ignored`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(1))
        let odd = Wire.frame(99, 0xFF, on: 77, [1, 2, 3]) + Wire.settings([(0xF0, 1), (8, 1)])
        #expect(rig.receive(odd + Wire.frame(2, on: 99, [0, 0, 0, 0, 1])) == nil)
        #expect(rig.closed.isEmpty)
        #expect(rig.receive(Wire.headers(1, [Self.ok])) == nil)
    }

    @Test func `PING and SETTINGS are acknowledged, once each`() throws {
        let rig = try SessionRig()
        _ = rig.takeOutput()
        #expect(rig.receive(Wire.ping() + Wire.ping(1) + Wire.settings([(3, 7)])) == nil)
        #expect(
            rig.sentFrames() == [
                Wire.Frame(type: 6, flags: 1, stream: 0, payload: [1, 2, 3, 4, 5, 6, 7, 8]),
                Wire.Frame(type: 4, flags: 1, stream: 0, payload: []),
            ]
        )
        #expect(rig.limits == [Int(UInt32.max), 7])
    }

    @Test func `GOAWAY refuses the streams above its last one, and a lower one refuses more`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(5))
        #expect(rig.receive(Wire.goAway(1 << 31 - 1)) == nil)
        #expect(rig.closed.isEmpty)
        #expect(rig.receive(Wire.goAway(5)) == nil)
        #expect(Set(rig.closed.map(\.stream)) == [7, 9] && rig.closed.allSatisfy { $0.code == 7 })
        #expect(rig.receive(Wire.goAway(1) + Wire.headers(1, [Self.ok])) == nil)
        #expect(rig.closed.count == 5 && rig.closed.last?.status == 200)
        #expect(rig.goAways == [0, 0, 0])
    }

    @Test func `windows are opened again as DATA comes, and not for a stream that has ended`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(1))
        _ = rig.takeOutput()
        #expect(rig.receive(Wire.headers(1, [Self.ok], flags: 4)) == nil)
        let piece = String(repeating: "x", count: 16_384)
        var returned = [0: 0, 1: 0]
        for _ in 0..<1024 {
            #expect(rig.receive(Wire.data(1, piece, flags: 0)) == nil)
            for frame in rig.sentFrames() where frame.type == 8 {
                returned[frame.stream, default: 0] += frame.payload.reduce(0) { $0 << 8 | Int($1) }
            }
        }
        #expect(returned == [0: 16 << 20, 1: 16 << 20])
        #expect(rig.receive(Wire.data(1, "end")) == nil)
        #expect(rig.closed.first?.body.utf8.count == 16 << 20 + 3)
    }

    @Test func `an answer before the request has ended stops the rest of the body`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(1, bodyBytes: 100_000))
        _ = rig.takeOutput()
        #expect(rig.receive(Wire.headers(1, [(":status", "413")])) == nil)
        #expect(rig.closed.map(\.status) == [413] && rig.closed.map(\.code) == [0])
        #expect(rig.sentFrames().map(\.type) == [3])
        _ = rig.receive(Wire.windowUpdate(0, 100_000))
        #expect(rig.sendBlocked().isEmpty)
    }

    @Test func `an answer is whole with END_STREAM and never by a reset, NO_ERROR or not`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(4))
        let head = [Self.ok, ("content-length", "2")]
        #expect(rig.receive(Wire.headers(1, head, flags: 4) + Wire.reset(1, 0)) == nil)
        #expect(rig.receive(Wire.headers(3, head, flags: 4) + Wire.data(3, "ok", flags: 0) + Wire.reset(3, 0)) == nil)
        #expect(rig.receive(Wire.reset(5, 0)) == nil)
        // RFC 9113, 8.1: after a whole answer NO_ERROR only says that the rest of the request is not needed.
        #expect(rig.receive(Wire.headers(7, head, flags: 4) + Wire.data(7, "ok") + Wire.reset(7, 0)) == nil)
        #expect(rig.closed.map(\.stream) == [1, 3, 5, 7] && rig.closed.allSatisfy { $0.code == 0 })
        #expect(rig.closed.map(\.isAnswered) == [false, false, false, true])
    }

    @Test(arguments: [[ok], [(":status", "103"), ("link", "x")]])
    func `a stream remembers that its answer has begun`(head: [(String, String)]) throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(2))
        #expect(rig.receive(Wire.headers(1, head, flags: 4)) == nil)
        #expect([0, 1].map { rig.streams[$0].hasAnswerBegun } == [true, false])
        #expect(rig.receive(Wire.reset(1, 7)) == nil)
        #expect(rig.open(try SessionRig.makeBatch(1)) == [.slot(0)])
        #expect([0, 1].map { rig.streams[$0].hasAnswerBegun } == [false, false])
    }

    // MARK: Requests

    @Test func `the greeting is the preface, SETTINGS without push, and a wide window`() throws {
        let output = OutputBuffer()
        let streams = StreamTable()
        let session = try #require(Session(output: output, streams: streams, initialStreams: 1, now: .longAgo))
        var bytes: [UInt8] = []
        output.write { span in
            for index in span.indices { bytes.append(span[index]) }
            return span.count
        }
        #expect(bytes.starts(with: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8))
        let frames = Wire.frames(Array(bytes.dropFirst(24)))
        #expect(frames.map(\.type) == [4, 8])
        #expect(frames.first?.payload == [0, 2, 0, 0, 0, 0, 0, 6, 0, 1, 0, 0])
        #expect(frames.last?.payload == Wire.number(16 << 20 - 65_535))
        #expect(session.peerStreamLimit == 1)
    }

    @Test func `a header larger than a frame goes on in CONTINUATION`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(3, bodyBytes: 5, ownBytes: 40_000))
        let frames = rig.sentFrames()
        // The first one is coded, to 25,000 bytes.
        #expect(frames.map(\.type) == [1, 9, 0, 1, 9, 9, 0, 1, 9, 9, 0])
        #expect(frames.map(\.flags) == [0, 4, 1, 0, 0, 4, 1, 0, 0, 4, 1])
        #expect(frames.map(\.stream) == [1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5])
        #expect(frames.allSatisfy { $0.payload.count <= 16_384 })
    }

    @Test func `a header larger than the peer takes is not sent and uses no stream`() throws {
        let rig = try SessionRig()
        #expect(rig.receive(Wire.settings([(6, 1000)])) == nil)
        _ = rig.takeOutput()
        #expect(rig.open(try SessionRig.makeBatch(2, ownBytes: 2000)) == [.tooLarge, .tooLarge])
        #expect(rig.output.isEmpty)
        #expect(rig.open(try SessionRig.makeBatch(2)) == [.slot(0), .slot(1)])
        #expect(rig.sentFrames().map(\.stream) == [1, 3])
    }

    @Test func `a connection takes no request when its stream ids draw to an end`() throws {
        let rig = try SessionRig()
        rig.session.lastStream = Session.lastUsedStream - 2
        #expect(rig.open(try SessionRig.makeBatch(2)) == [.slot(0), .noMoreStreams])
        #expect(rig.sentFrames().map(\.stream) == [Int(Session.lastUsedStream)])
        #expect(Session.lastUsedStream & 1 == 1)
    }

    // MARK: Windows

    /// How many bytes of bodies went out, and whether the last of them ended its stream.
    private func sentBody(_ rig: SessionRig) -> String {
        let data = Wire.frames(rig.takeOutput() + rig.sendBlocked()).filter { $0.type == 0 }
        return "\(data.reduce(0) { $0 + $1.payload.count })" + (data.last?.flags == 1 ? ", ended" : "")
    }

    @Test func `a body stops at the windows and goes on as they open`() throws {
        let rig = try SessionRig()
        rig.open(try SessionRig.makeBatch(1, bodyBytes: 100_000))
        #expect(sentBody(rig) == "65535")
        // The stream's window alone does not help, nor does the connection's.
        #expect(rig.receive(Wire.windowUpdate(1, 50_000)) == nil)
        #expect(sentBody(rig) == "0")
        #expect(rig.receive(Wire.windowUpdate(0, 1000)) == nil)
        #expect(sentBody(rig) == "1000")
        #expect(rig.receive(Wire.windowUpdate(0, 100_000)) == nil)
        #expect(sentBody(rig) == "33465, ended")
    }

    @Test func `a smaller initial window takes back what is open, below zero`() throws {
        let rig = try SessionRig()
        #expect(rig.receive(Wire.windowUpdate(0, 1 << 20)) == nil)
        rig.open(try SessionRig.makeBatch(1, bodyBytes: 100_000))
        #expect(sentBody(rig) == "65535")
        #expect(rig.receive(Wire.settings([(4, 10)])) == nil)
        #expect(rig.streams[0].sendWindow == 10 - 65_535)
        #expect(rig.receive(Wire.windowUpdate(1, 65_525)) == nil)
        #expect(sentBody(rig) == "0")
        #expect(rig.receive(Wire.windowUpdate(1, 7)) == nil)
        #expect(sentBody(rig) == "7")
        #expect(rig.receive(Wire.settings([(4, 20)])) == nil)
        #expect(sentBody(rig) == "10")
        #expect(rig.receive(Wire.settings([(4, 1 << 20)])) == nil)
        #expect(sentBody(rig) == "34448, ended")
        // A window of nothing from the start.
        #expect(rig.receive(Wire.settings([(4, 0)])) == nil)
        rig.open(try SessionRig.makeBatch(1, bodyBytes: 3))
        #expect(sentBody(rig) == "0")
        #expect(rig.receive(Wire.windowUpdate(3, 3)) == nil)
        #expect(sentBody(rig) == "3, ended")
    }

    @Test func `a peer that opens its window byte by byte is no flood`() throws {
        let rig = try SessionRig()
        #expect(rig.receive(Wire.settings([(4, 0)])) == nil)
        rig.open(try SessionRig.makeBatch(1, bodyBytes: 40_000))
        var sent = 0
        for _ in 0..<40_000 {
            #expect(rig.receive(Wire.windowUpdate(1, 1)) == nil)
            sent += Wire.frames(rig.sendBlocked()).filter { $0.type == 0 }.reduce(0) { $0 + $1.payload.count }
        }
        #expect(sent == 40_000)
    }

    @Test func `promise 5: of a body that waited for a window nothing goes out after its deadline`() throws {
        let rig = try SessionRig()
        #expect(rig.receive(Wire.settings([(4, 10)])) == nil)
        rig.open(try SessionRig.makeBatch(3, bodyBytes: 30))
        #expect(Wire.frames(rig.takeOutput() + rig.sendBlocked()).count { $0.type == 0 } == 3)
        #expect(rig.receive(Wire.windowUpdate(3, 20)) == nil)
        #expect(sentBody(rig) == "20, ended")
        rig.isLate = true
        #expect(rig.receive(Wire.windowUpdate(1, 20) + Wire.windowUpdate(5, 20)) == nil)
        let sent = Wire.frames(rig.sendBlocked())
        #expect(sent == [1, 5].map { Wire.Frame(type: 3, flags: 0, stream: $0, payload: Wire.number(8)) })
        #expect(rig.expired == [1, 5] && rig.closed.isEmpty)
        // What was out whole before goes on to its answer.
        #expect(rig.receive(Wire.headers(3, [Self.ok])) == nil)
        #expect(rig.closed.map(\.isAnswered) == [true])
    }

    @Test func `large bodies wait for the socket, and are no reason to call the peer deaf`() throws {
        let rig = try SessionRig()
        #expect(rig.receive(Wire.settings([(4, 1 << 20)]) + Wire.windowUpdate(0, 4 << 20)) == nil)
        _ = rig.takeOutput()
        rig.open(try SessionRig.makeBatch(3, bodyBytes: 500_000))
        for _ in 0..<3 { rig.session.sendBlocked(for: rig) }
        #expect(rig.output.count < 128 * 1024)
        #expect(rig.receive(Wire.ping()) == nil)
        let frames = Wire.frames(rig.takeOutput() + rig.sendBlocked())
        var counts = [1: 0, 3: 0, 5: 0]
        for frame in frames where frame.type == 0 { counts[frame.stream, default: 0] += frame.payload.count }
        #expect(counts == [1: 500_000, 3: 500_000, 5: 500_000])
        #expect(frames.filter { $0.type == 0 && $0.flags == 1 }.map(\.stream) == [1, 3, 5])
    }

    @Test func `bodies that wait and are reset leave nothing behind`() throws {
        let rig = try SessionRig()
        #expect(rig.receive(Wire.settings([(4, 0)])) == nil)
        for round in 0..<200 {
            let first = Int(rig.session.lastStream) + 2
            rig.open(try SessionRig.makeBatch(10, bodyBytes: 3))
            let resets = (0..<10).flatMap { Wire.reset(first + 2 * $0) }
            #expect(rig.receive(resets) == nil)
            #expect(rig.session.blocked.count <= 2 * rig.streams.capacity, "round \(round)")
        }
        #expect(rig.streams.capacity == 16)
    }

    // MARK: Streams

    @Test func `streams are found among thousands that come and go`() {
        let table = StreamTable()
        var open: [Int32: Int] = [:]
        var ids: [Int32] = []
        var generator = SeededGenerator(seed: 11)
        var stream: Int32 = 1
        for _ in 0..<20_000 {
            if ids.count < 700, ids.isEmpty || Int.random(in: 0..<5, using: &generator) > 1 {
                open[stream] = table.take(for: stream)
                ids.append(stream)
                stream += Bool.random(using: &generator) ? 2 : 2000
            } else {
                ids.swapAt(Int.random(in: 0..<ids.count, using: &generator), ids.count - 1)
                let gone = ids.removeLast()
                let slot = open.removeValue(forKey: gone)
                #expect(table.slot(of: gone) == slot)
                table.giveBack(slot ?? 0)
                #expect(table.slot(of: gone) == nil)
            }
        }
        for (stream, slot) in open { #expect(table.slot(of: stream) == slot) }
        #expect(Set(open.values).count == open.count && table.capacity <= 1024)
    }
}
