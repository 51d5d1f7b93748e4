import Glibc
import TestSupport
import Testing

@testable import HTTP2

/// Bytes that no peer should send: whatever comes, the session neither crashes nor loses count nor grows.
@Suite struct SessionFuzzTests {
    /// A whole conversation that uses every kind of frame; streams 1 to 15 are open.
    private static let conversation: [UInt8] = {
        let ok = (":status", "200")
        let id = ("apns-id", "123e4567-e89b-12d3-a456-426614174000")
        var bytes =
            Wire.settings([(1, 4096), (3, 1000), (4, 100_000), (5, 16_384), (6, 8000)]) + Wire.frame(4, 1, on: 0)
        bytes += Wire.windowUpdate(0, 1 << 20) + Wire.headers(1, [ok, id])
        bytes += Wire.headers(3, [(":status", "400"), ("content-type", "application/json")], flags: 4, pattern: 0x40)
        bytes += Wire.data(3, #"{"reason":"BadDeviceToken"}"#) + Wire.ping() + Wire.settings([(1, 0), (1, 200)])
        let block = Wire.block([ok, id], pattern: 0x40)
        let head: [UInt8] = [2, 0, 0, 0, 1, 9]
        bytes += Wire.frame(1, 0x29, on: 5, head + Array(block.prefix(20)) + [0, 0])
        bytes += Wire.frame(9, 4, on: 5, Array(block.dropFirst(20)))
        bytes += Wire.headers(7, [(":status", "103"), ("link", "x")], flags: 4) + Wire.headers(7, [ok], flags: 4)
        bytes += Wire.frame(0, 8, on: 7, [4, 1, 2, 3, 0, 0, 0, 0]) + Wire.headers(7, [("trailer", "y")])
        bytes += Wire.reset(9) + Wire.windowUpdate(11, 500) + Wire.frame(2, on: 11, [0, 0, 0, 1, 5])
        bytes += Wire.frame(1, 5, on: 11, [0x88, 0xBE]) + Wire.frame(99, 3, on: 3, [1]) + Wire.goAway(13, 0, "bye")
        return bytes + Wire.headers(13, [ok, ("content-length", "0")], pattern: 0x10)
    }()

    /// Changes, inserts, removes, repeats or cuts something; 1 to 8 times.
    private static func mutate(_ bytes: inout [UInt8], _ generator: inout SeededGenerator) -> Int {
        let count = Int(generator.next() % 8) + 1
        for _ in 0..<count where !bytes.isEmpty {
            let place = Int(generator.next() % UInt64(bytes.count))
            switch generator.next() % 8 {
            case 0: bytes[place] = UInt8(truncatingIfNeeded: generator.next())
            case 1: bytes[place] ^= 1 << UInt8(generator.next() % 8)
            case 2: bytes.insert(UInt8(truncatingIfNeeded: generator.next()), at: place)
            case 3: bytes.remove(at: place)
            case 4: bytes[place] = [0, 1, 0x7F, 0x80, 0xFF][Int(generator.next() % 5)]
            case 5: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 30)], at: place)
            case 6: bytes.removeSubrange(place..<min(bytes.count, place + Int(generator.next() % 20)))
            default: bytes.swapAt(place, Int(generator.next() % UInt64(bytes.count)))
            }
        }
        return count
    }

    /// One mutated conversation; how it ended.
    private func run(_ bytes: [UInt8], cutAt size: Int, _ batch: RequestBatch) throws -> ErrorCode? {
        let rig = try SessionRig()
        rig.open(batch)
        let code = rig.receive(bytes, cutAt: size)
        rig.session.sendBlocked(for: rig)
        let open = (0..<rig.streams.capacity).filter { rig.streams[$0].reference != nil }
        #expect(open.count + rig.closed.count == 8)
        #expect(Set(rig.closed.map(\.stream)).count == rig.closed.count)
        for slot in open { #expect(rig.streams.slot(of: rig.streams[slot].streamID) == slot) }
        #expect(rig.hasLittleMemory && rig.session.blocked.count <= 16)
        // What it sends is whole frames, whatever it was sent.
        #expect(Wire.frames(rig.takeOutput()).allSatisfy { $0.type <= 9 && $0.payload.count <= 16_384 })
        return code
    }

    @Test func `the conversation itself is in order`() throws {
        let batch = try SessionRig.makeBatch(8, bodyBytes: 20_000)
        for size in [Int.max, 1, 13] { #expect(try run(Self.conversation, cutAt: size, batch) == nil) }
    }

    // PEAL_FUZZ_ROUNDS makes a long run of it by hand, PEAL_FUZZ_SEED one that goes on where another ended.
    @Test func `a peer that sends anything at all does no harm`() throws {
        let rounds = environmentNumber("PEAL_FUZZ_ROUNDS") ?? 3000
        let first = environmentNumber("PEAL_FUZZ_SEED") ?? 0
        let batch = try SessionRig.makeBatch(8, bodyBytes: 20_000)
        var mutations = 0
        var faults = 0
        for round in first..<first + rounds {
            var generator = SeededGenerator(seed: UInt64(round))
            var bytes = Self.conversation
            mutations += Self.mutate(&bytes, &generator)
            let size = [Int.max, 1, 7, 64][Int(generator.next() % 4)]
            if try run(bytes, cutAt: size, batch) != nil { faults += 1 }
        }
        print("seeds \(first)..<\(first + rounds): \(mutations) mutations, \(faults) connections ended")
        #expect(faults > rounds / 10 && faults < rounds)
    }
}

/// A number for a long run by hand; nil when the variable is not set.
func environmentNumber(_ name: String) -> Int? {
    unsafe getenv(name).flatMap { unsafe Int(String(cString: $0)) }
}
