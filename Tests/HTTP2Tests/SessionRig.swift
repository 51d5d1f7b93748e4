import PushCore

@testable import HTTP2

/// A codec without a connection around it: takes a peer's bytes, keeps what it tells, and shows what it sends.
final class SessionRig: SessionOwner {
    struct Closed: Equatable {
        let stream: Int32
        let code: UInt32
        /// The whole answer came.
        var isAnswered = false
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
    private(set) var expired: [Int] = []
    /// The deadlines of all requests have passed.
    var isLate = false
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
            defer { noteMemory() }
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

    // MARK: Memory

    /// The most that the session held for its peer after a read, in bytes: what it sends, what it gathers, and who waits.
    private(set) var peakHeldBytes = 0
    /// The largest table that the peer made the decoder keep, in bytes as RFC 7541 counts them.
    private(set) var peakTableBytes = 0

    private func noteMemory() {
        let gathered = session.openBlock?.bytes.capacity ?? 0
        peakHeldBytes = max(peakHeldBytes, output.capacity + gathered + session.blocked.capacity * 4)
        peakTableBytes = max(peakTableBytes, session.decoder.tableBytes)
    }

    /// No peer may make a session hold more.
    var hasLittleMemory: Bool { peakHeldBytes < 1 << 20 && peakTableBytes <= 4096 }

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

    /// What bodies that waited send now, as often as the output is written.
    func sendBlocked() -> [UInt8] {
        var bytes: [UInt8] = []
        repeat {
            session.sendBlocked(for: self)
            bytes += takeOutput()
        } while session.mayUnblock
        return bytes
    }

    /// Opens one stream for each request of a batch.
    @discardableResult
    func open(_ batch: RequestBatch, _ selection: RequestSelection = .all) -> [Session.Opening] {
        let submit = Submit(batch: batch, tag: 1, selection: selection, pool: PoolID(number: 1), single: nil)
        let submission = Submission(submit, now: .longAgo, expiresAt: .never)
        var openings: [Session.Opening] = []
        while let index = submission.cursor.next() {
            let reference = RequestReference(submission: submission, index: index)
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

    func answerEnded(_ slot: Int) { close(slot, .none, isAnswered: true) }

    func streamClosed(_ slot: Int, _ code: ErrorCode) { close(slot, code, isAnswered: false) }

    func isTooLate(_ slot: Int) -> Bool { isLate }

    func streamExpired(_ slot: Int) {
        expired.append(Int(streams[slot].streamID))
        streams.giveBack(slot)
    }

    private func close(_ slot: Int, _ code: ErrorCode, isAnswered: Bool) {
        closed.append(
            Closed(
                stream: streams[slot].streamID,
                code: code.value,
                isAnswered: isAnswered,
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
