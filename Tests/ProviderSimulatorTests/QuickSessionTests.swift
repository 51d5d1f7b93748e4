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
        var whole = QuickSession()
        let expected = feed(&whole, [Self.input])
        var cut = QuickSession()
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

    @Test func `a frame that is too large ends the connection`() {
        var session = QuickSession()
        var output: [UInt8] = []
        let bytes = Self.preface + [0, 0x40, 1, 0, 0, 0, 0, 0, 1]
        #expect(unsafe !bytes.withUnsafeBytes { unsafe session.receive($0, output: &output) })
    }
}
