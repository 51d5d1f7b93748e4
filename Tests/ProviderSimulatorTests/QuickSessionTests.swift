@testable import ProviderSimulator
import Testing

@Suite struct QuickSessionTests {
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private static func frame(_ type: UInt8, flags: UInt8, stream: UInt8, _ payload: [UInt8] = []) -> [UInt8] {
        [0, 0, UInt8(payload.count), type, flags, 0, 0, 0, stream] + payload
    }

    /// Preface, SETTINGS, a request in HEADERS and DATA, one in HEADERS and CONTINUATION, a PING.
    private static let input: [UInt8] =
        preface + frame(4, flags: 0, stream: 0) + frame(1, flags: 4, stream: 1, [0x83, 0x87])
        + frame(0, flags: 1, stream: 1, Array("body".utf8)) + frame(1, flags: 1, stream: 3, [0x83])
        + frame(9, flags: 4, stream: 3, [0x87]) + frame(6, flags: 0, stream: 0, Array("12345678".utf8))

    private func feed(_ session: inout QuickSession, _ pieces: [[UInt8]]) -> [UInt8] {
        var output: [UInt8] = []
        for piece in pieces {
            let isInStep = unsafe piece.withUnsafeBytes { unsafe session.receive($0, output: &output) }
            #expect(isInStep)
        }
        return output
    }

    @Test func `it makes no difference how the input is cut`() {
        var whole = QuickSession(.apns)
        let expected = feed(&whole, [Self.input])
        var cut = QuickSession(.apns)
        #expect(feed(&cut, Self.input.map { [$0] }) == expected)
        let counts = whole.takeCounts()
        #expect(counts.requests == 2)
        #expect(counts.bodyBytes == 4)
        #expect(whole.openStreams == 0)
        #expect(whole.peakOpenStreams == 1)
        #expect(whole.pings == 1)
        // SETTINGS ack, two answers with different ids, PING ack.
        let ack: [UInt8] = [0, 0, 0, 4, 1, 0, 0, 0, 0]
        #expect(expected.starts(with: ack))
        #expect(expected.suffix(17) == [0, 0, 8, 6, 1, 0, 0, 0, 0] + Array("12345678".utf8))
        let answers = Array(expected.dropFirst(9).dropLast(17))
        let size = answers.count / 2
        #expect(answers[8] == 1)
        #expect(answers[size + 8] == 3)
        #expect(answers[9..<size] != answers[(size + 9)...])
    }

    /// A WINDOW_UPDATE of the connection by some bytes less than 256.
    private static func window(_ bytes: UInt8) -> [UInt8] { frame(8, flags: 0, stream: 0, [0, 0, 0, bytes]) }

    @Test func `answers with a body keep to the client's window`() {
        var session = QuickSession(.fcm(projectID: "p"))
        let size = QuickAnswer.fcm(projectID: "p").bodyCount
        let fitting = 65_535 / size
        var output: [UInt8] = []
        func feed(_ bytes: [UInt8]) -> Bool {
            unsafe bytes.withUnsafeBytes { unsafe session.receive($0, output: &output) }
        }
        #expect(feed(Self.preface + Self.frame(4, flags: 0, stream: 0)))
        for number in 0..<fitting + 2 {
            #expect(feed(Self.frame(1, flags: 5, stream: UInt8(truncatingIfNeeded: 2 * number + 1), [0x83])))
        }
        #expect(session.openStreams == 0 && session.takeCounts().requests == fitting + 2)
        let before = output.count
        #expect(feed(Self.window(UInt8(size))))
        let one = output.count - before
        #expect(one > size)
        #expect(feed(Self.window(UInt8(size)) + Self.window(UInt8(size))))
        #expect(output.count == before + 2 * one)
        // A client that takes no whole answer on a stream is told so by a closed connection.
        #expect(!feed(Self.frame(4, flags: 0, stream: 0, [0, 4, 0, 0, 0, 1])))
    }

    @Test func `a delayed answer waits until it is asked for`() {
        var session = QuickSession(.apns, isDelayed: true)
        let output = feed(&session, [Self.input])
        #expect(output.count == 26)
        #expect(session.openStreams == 2)
        var ended: [UInt32] = []
        session.takeEnded { ended.append($0) }
        #expect(ended == [1, 3])
        var later: [UInt8] = []
        for stream in ended { session.answer(stream: stream, output: &later) }
        #expect(later[8] == 1 && session.openStreams == 0)
    }

    @Test func `a queue of streams gives them back in order, each when it is due`() {
        var queue = StreamQueue()
        for stream in UInt32(0)..<5000 { queue.add(stream, due: Int64(stream / 10)) }
        var taken: [UInt32] = []
        for now in Int64(0)..<500 {
            #expect(queue.nextDue == now)
            while let stream = queue.takeFirst(dueBy: now) { taken.append(stream) }
            queue.add(UInt32(5000 + now), due: 500 + now)
        }
        #expect(taken == Array(0..<5000))
        #expect(queue.takeFirst(dueBy: 499) == nil && queue.takeFirst() == 5000)
    }

    @Test func `a frame that is too large ends the connection`() {
        var session = QuickSession(.apns)
        var output: [UInt8] = []
        let bytes = Self.preface + [0, 0x40, 1, 0, 0, 0, 0, 0, 1]
        #expect(unsafe !bytes.withUnsafeBytes { unsafe session.receive($0, output: &output) })
    }
}
