import TestSupport
import Testing

@testable import HTTP2

@Suite struct FrameReaderTests {
    /// Feeds bytes in pieces and takes every frame.
    private func read(_ bytes: [UInt8], pieces: [Int]) throws -> [Wire.Frame] {
        let reader = FrameReader()
        let pinned = PinnedBytes(bytes)
        var seen: [Wire.Frame] = []
        var start = 0
        for piece in pieces + [bytes.count] {
            let end = min(bytes.count, start + piece)
            unsafe reader.begin(UnsafeBufferPointer(start: pinned.base + start, count: end - start))
            while let frame = try reader.next() {
                let payload = unsafe Array(frame.payload)
                seen.append(
                    Wire.Frame(type: frame.type, flags: frame.flags, stream: Int(frame.stream), payload: payload)
                )
            }
            start = end
        }
        withExtendedLifetime(pinned) {}
        return seen
    }

    @Test func `frames are the same wherever reads cut them`() throws {
        let payloads: [[UInt8]] = [
            [], [1], Array(repeating: 7, count: 300), [], Array(repeating: 9, count: 16_384), [5, 6],
        ]
        let bytes = payloads.enumerated().flatMap { Wire.frame(UInt8($0.offset), 4, on: 1, $0.element) }
        let expected = Wire.frames(bytes)
        #expect(expected.map(\.payload) == payloads)
        #expect(try read(bytes, pieces: []) == expected)
        for size in [1, 2, 3, 5, 8, 9, 10, 11, 100, 309, 310, 4096] {
            #expect(try read(bytes, pieces: Array(repeating: size, count: bytes.count / size)) == expected)
        }
        var generator = SeededGenerator(seed: 3)
        for _ in 0..<50 {
            let pieces = (0..<200).map { _ in Int.random(in: 0...200, using: &generator) }
            #expect(try read(bytes, pieces: pieces) == expected)
        }
    }

    @Test(arguments: [[], [4], [9], [16_384]])
    func `a frame that is too large is a fault as soon as its head is there`(pieces: [Int]) {
        let bytes = [UInt8]([0x00, 0x40, 0x01, 0, 0, 0, 0, 0, 1])
        let fault = #expect(throws: ProtocolFault.self) { try read(bytes, pieces: pieces) }
        #expect(fault?.code == .frameSize)
    }

    @Test func `the highest bit of a stream's id is ignored`() throws {
        let frame = try read([0, 0, 0, 0, 0, 0x80, 0, 0, 5], pieces: []).first
        #expect(frame?.stream == 5)
    }

    @Test func `the output keeps order and counts over partial writes`() {
        let output = OutputBuffer()
        var expected: [UInt8] = []
        var written: [UInt8] = []
        for number in 0..<3000 {
            let bytes = (0..<(number % 97)).map { UInt8(truncatingIfNeeded: $0 + number) }
            output.append(bytes)
            expected += bytes
            guard number % 3 == 0 else { continue }
            output.write { span in
                let taken = min(span.count, number % 211)
                for index in 0..<taken { written.append(span[index]) }
                return taken
            }
        }
        while !output.isEmpty {
            output.write { span in
                for index in span.indices { written.append(span[index]) }
                return span.count
            }
        }
        #expect(written == expected)
        #expect(output.framedTotal == UInt64(expected.count) && output.writtenTotal == output.framedTotal)
    }
}
