import PushCore

@testable import HTTP2

/// A codec without a connection around it: takes a peer's bytes, keeps what it tells, and shows what it sends.
final class SessionRig: SessionOwner {
    struct Closed: Equatable {
        let stream: Int32
        let code: UInt32
        let status: Int
        let fields: [String]
        let body: String
    }

    let output = OutputBuffer()
    let streams = StreamTable()
    let session: Session
    var poolFields = PoolFields(authority: "api.example.com")
    private(set) var limits: [Int] = []
    private(set) var goAways: [UInt32] = []
    private(set) var closed: [Closed] = []
    private var fields: [Int: [String]] = [:]
    private var bodies: [Int: [UInt8]] = [:]

    init(greeted: Bool = true) throws {
        let made = Session(output: output, streams: streams, initialStreams: 1, now: .longAgo)
        guard let made else { throw TestFailure("no memory for a session") }
        session = made
        _ = takeOutput()
        if greeted {
            _ = receive(Wire.settings([]))
            _ = takeOutput()
        }
    }

    // MARK: What the peer sends

    /// The code of the fault that ended the connection; nil while it goes on.
    func receive(_ bytes: [UInt8], cutAt size: Int = .max, now: LoopTime = .longAgo) -> ErrorCode? {
        let pinned = PinnedBytes(bytes)
        defer { withExtendedLifetime(pinned) {} }
        var start = 0
        while start < bytes.count {
            let count = min(size, bytes.count - start, 16_384)
            do throws(ProtocolFault) {
                unsafe try session.consume(
                    UnsafeBufferPointer(start: pinned.base + start, count: count),
                    now: now,
                    for: self
                )
            } catch {
                return error.code
            }
            start += count
        }
        return nil
    }

    // MARK: What the session sends

    func takeOutput() -> [UInt8] {
        var bytes: [UInt8] = []
        output.write { span in
            for index in span.indices { bytes.append(span[index]) }
            return span.count
        }
        return bytes
    }

    func sentFrames() -> [Wire.Frame] { Wire.frames(takeOutput()) }

    /// Opens one stream for each request of a batch.
    @discardableResult
    func open(_ batch: RequestBatch, _ selection: RequestSelection = .all) -> [Session.Opening] {
        let submit = Submit(batch: batch, tag: 1, selection: selection, pool: PoolID(number: 1), single: nil)
        let submission = Submission(submit, now: .longAgo, expiresAt: .never)
        var openings: [Session.Opening] = []
        while let index = submission.cursor.next() {
            let reference = RequestReference(submission: submission, index: index, rounds: 0)
            openings.append(session.open(reference, poolFields, deadline: .never, secondsLeft: 0))
        }
        return openings
    }

    static func makeBatch(_ count: Int, bodyBytes: Int = 0, ownBytes: Int = 4) throws -> RequestBatch {
        var builder = RequestBatchBuilder(timeLimit: .seconds(1))
        try builder.addField("apns-topic", value: "com.example.app")
        try builder.addOwnField("apns-id")
        let content = builder.store((0..<bodyBytes).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let body = bodyBytes == 0 ? RequestBody.none : builder.makeBody(.bytes(content))
        for number in 0..<count {
            let own = builder.store(String(repeating: "o", count: ownBytes))
            try builder.add(path: builder.store("/3/device/\(number)"), ownValues: own, body: body)
        }
        return builder.finish()
    }

    // MARK: SessionOwner

    var wantsFrames: Bool { true }

    func headerReceived(_ slot: Int, _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        let text = unsafe String(decoding: name, as: UTF8.self) + ": " + String(decoding: value, as: UTF8.self)
        fields[slot, default: []].append(text)
    }

    func dataReceived(_ slot: Int, _ bytes: UnsafeBufferPointer<UInt8>) {
        unsafe bodies[slot, default: []] += Array(bytes)
    }

    func streamClosed(_ slot: Int, _ code: ErrorCode) {
        closed.append(
            Closed(
                stream: streams[slot].streamID,
                code: code.value,
                status: Int(streams[slot].status),
                fields: fields.removeValue(forKey: slot) ?? [],
                body: String(decoding: bodies.removeValue(forKey: slot) ?? [], as: UTF8.self)
            )
        )
        streams.giveBack(slot)
    }

    func settingsReceived(streamLimit: Int) { limits.append(streamLimit) }

    func goAwayReceived(code: UInt32, debug: UnsafeBufferPointer<UInt8>) { goAways.append(code) }
}

/// Frames as bytes, written and read without the code under test.
enum Wire {
    struct Frame: Equatable {
        let type: UInt8
        let flags: UInt8
        let stream: Int
        let payload: [UInt8]
    }

    static func number(_ value: Int, _ bytes: Int = 4) -> [UInt8] {
        (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    static func frame(_ type: UInt8, _ flags: UInt8 = 0, on stream: Int, _ payload: [UInt8] = []) -> [UInt8] {
        var bytes = number(payload.count, 3)
        bytes.append(type)
        bytes.append(flags)
        return bytes + number(stream) + payload
    }

    static func frames(_ bytes: [UInt8]) -> [Frame] {
        var frames: [Frame] = []
        var rest = bytes[...]
        while rest.count >= 9 {
            let head = Array(rest.prefix(9))
            let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            let stream = head[5...].reduce(0) { $0 << 8 | Int($1) }
            let payload = Array(rest.dropFirst(9).prefix(count))
            frames.append(Frame(type: head[3], flags: head[4], stream: stream, payload: payload))
            rest = rest.dropFirst(9 + count)
        }
        return frames
    }

    static func settings(_ entries: [(id: Int, value: Int)]) -> [UInt8] {
        frame(4, on: 0, entries.flatMap { number($0.id, 2) + number($0.value) })
    }

    static func windowUpdate(_ stream: Int, _ increment: Int) -> [UInt8] { frame(8, on: stream, number(increment)) }
    static func reset(_ stream: Int, _ code: Int = 8) -> [UInt8] { frame(3, on: stream, number(code)) }
    static func ping(_ flags: UInt8 = 0) -> [UInt8] { frame(6, flags, on: 0, [1, 2, 3, 4, 5, 6, 7, 8]) }

    static func goAway(_ last: Int, _ code: Int = 0, _ text: String = "") -> [UInt8] {
        frame(7, on: 0, number(last) + number(code) + Array(text.utf8))
    }

    /// A header block of literals with names of their own. Pattern 0x00 leaves the decoder's table alone, 0x40 enters it.
    static func block(_ fields: [(String, String)], pattern: UInt8 = 0x00) -> [UInt8] {
        var bytes: [UInt8] = []
        for (name, value) in fields {
            if name == ":status", value == "200" {
                bytes.append(0x88)
                continue
            }
            bytes.append(pattern)
            for text in [name, value] {
                bytes.append(UInt8(text.utf8.count))
                bytes += Array(text.utf8)
            }
        }
        return bytes
    }

    /// HEADERS that are whole; 0x5 ends the stream as well.
    static func headers(_ stream: Int, _ fields: [(String, String)], flags: UInt8 = 0x5, pattern: UInt8 = 0) -> [UInt8]
    {
        frame(1, flags, on: stream, block(fields, pattern: pattern))
    }

    static func data(_ stream: Int, _ text: String, flags: UInt8 = 0x1) -> [UInt8] {
        frame(0, flags, on: stream, Array(text.utf8))
    }
}

/// A generator whose numbers are the same each time: a test that fails says its seed.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
