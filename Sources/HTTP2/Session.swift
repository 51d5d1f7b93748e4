/// What a session tells of received frames. A slot's stream is over with `answerEnded`, `streamClosed` or
/// `streamExpired`, which must give the slot back.
protocol SessionOwner: AnyObject {
    func headerReceived(_ slot: Int, _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>)
    func dataReceived(_ slot: Int, _ bytes: UnsafeBufferPointer<UInt8>)
    // The whole answer has come.
    func answerEnded(_ slot: Int)
    // No whole answer will come: either side reset the stream, or it lies above the last one of a GOAWAY.
    func streamClosed(_ slot: Int, _ code: ErrorCode)
    // Asked before more of a body that had to wait is framed: true when its deadline has passed.
    func isTooLate(_ slot: Int) -> Bool
    // The rest of the body was not sent, because it was too late.
    func streamExpired(_ slot: Int)
    func settingsReceived(streamLimit: Int)
    func goAwayReceived(code: UInt32, debug: UnsafeBufferPointer<UInt8>)
    // False when nothing more of what was read matters.
    var wantsFrames: Bool { get }
}

/// The HTTP/2 codec of one connection: RFC 9113 as a client has it, and the sending half of HPACK.
///
/// It turns requests into bytes of `output` and received bytes into calls of a `SessionOwner`. It knows streams, slots,
/// windows and tables, nothing of pools, sockets or time limits. Header blocks are written from templates, which is why
/// this is not libnghttp2's session: that codes `authorization` anew for each request and keeps objects per stream.
/// Header blocks of answers are decoded by libnghttp2's inflater (`HeaderDecoder`).
///
/// Files: this one holds what is sent, `Session+Bodies` how bodies go through the windows, `Session+Frames` what is
/// received, `Session+Settings` the peer's SETTINGS and windows.
final class Session {
    let output: OutputBuffer
    let streams: StreamTable
    let reader = FrameReader()
    let decoder: HeaderDecoder
    var flood: FloodGuard

    // Sending.
    var table = HeaderTable()
    private var template: HeaderTemplate?
    // The id of the newest stream; all ids of a client are odd.
    var lastStream: Int32 = -1
    var sendWindow = FrameLimits.defaultWindow
    // Streams whose body waits for a window, in order.
    let blocked = Ring<Int32>()
    // A window has grown since those were looked at last.
    var mayUnblock = false

    // What the peer's SETTINGS say.
    var hasPeerSettings = false
    var peerStreamLimit: Int
    var initialSendWindow = FrameLimits.defaultWindow
    var peerHeaderLimit = Int.max
    // The peer owes us an acknowledgement of ours.
    var awaitsSettingsAck = true

    // Receiving: bytes of DATA for which the connection's window was not opened again.
    var unreturned: Int64 = 0
    var lastGoAway = Int32.max
    // A header block that goes on in CONTINUATION frames.
    var openBlock: OpenBlock?

    struct OpenBlock {
        let stream: Int32
        let endsStream: Bool
        var bytes: [UInt8]
    }

    // Answers are small and many: the connection's window must never be what they wait for.
    static let receiveWindow: Int64 = 16 << 20
    // The encoded size of one answer's header.
    static let largestBlock = 64 * 1024
    // A connection ends well before its ids do, which end at 2^31-1.
    static let lastUsedStream = Int32.max - (1 << 20)

    // Nil when there is no memory. Appends our side of the greeting.
    init?(output: OutputBuffer, streams: StreamTable, initialStreams: Int, now: LoopTime) {
        guard let decoder = HeaderDecoder() else { return nil }
        self.output = output
        self.streams = streams
        self.decoder = decoder
        flood = FloodGuard(now: now)
        peerStreamLimit = initialStreams
        output.append("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        output.appendFrameHeader(FrameType.settings, flags: 0, stream: 0, payloadCount: 12)
        append(setting: SettingID.enablePush, 0)
        append(setting: SettingID.maximumHeaderListSize, UInt32(HeaderDecoder.largestList))
        appendWindowUpdate(stream: 0, UInt32(Session.receiveWindow - FrameLimits.defaultWindow))
    }

    private func append(setting id: UInt16, _ value: UInt32) {
        output.append([UInt8(id >> 8), UInt8(id & 0xFF)])
        unsafe output.extend(by: 4).put(value)
    }

    // MARK: Requests

    enum Opening: Equatable {
        case slot(Int)
        // This connection has used up its stream ids.
        case noMoreStreams
        // The peer takes no header of that size.
        case tooLarge
    }

    // Frames a request's header and as much of its body as the windows allow; the rest follows by itself.
    func open(
        _ reference: RequestReference,
        _ fields: PoolFields,
        deadline: LoopTime,
        secondsLeft: UInt32
    ) -> Opening {
        guard lastStream < Session.lastUsedStream else { return .noMoreStreams }
        let batch = reference.submission.batch
        let entry = batch.entries[Int(reference.index)]
        let ready = readyTemplate(for: batch, fields)
        let size = ready?.listSize(of: entry) ?? HeaderTemplate.listSize(of: entry, in: batch, fields)
        guard size <= peerHeaderLimit else { return .tooLarge }
        lastStream += 2
        flood.frameSent()
        let slot = streams.take(for: lastStream)
        streams[slot].open(reference, body: entry.body, deadline: deadline, secondsLeft: secondsLeft)
        streams[slot].sendWindow = initialSendWindow
        let bodyCount = bodyCount(slot, entry, in: batch)
        streams[slot].bodyLeft = bodyCount
        if bodyCount == 0 { markFramed(slot) }
        if let ready {
            appendHeaders(of: entry, ready, endsStream: bodyCount == 0)
        } else {
            appendFirstHeaders(of: entry, in: batch, fields, endsStream: bodyCount == 0)
        }
        if bodyCount > 0 { sendBody(slot, of: batch) }
        return .slot(slot)
    }

    private func readyTemplate(for batch: RequestBatch, _ fields: PoolFields) -> HeaderTemplate? {
        guard let template, template.poolFields === fields, template.tableVersion == table.version else { return nil }
        if template.batch === batch { return template }
        // The batches of a job take turns, and differ in nothing that a template holds.
        guard template.batch.hasFields(of: batch) else { return nil }
        let other = HeaderTemplate(template, for: batch)
        self.template = other
        return other
    }

    private func appendHeaders(of entry: RequestBatch.Entry, _ template: HeaderTemplate, endsStream: Bool) {
        let count = template.blockCount(of: entry)
        guard count <= FrameLimits.payloadBytes else {
            let block = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, written in
                guard let start = buffer.baseAddress else { return }
                _ = unsafe template.writeBlock(of: entry, to: start)
                written = count
            }
            return appendHeaders(block, endsStream: endsStream)
        }
        let flags = FrameFlags.endHeaders | (endsStream ? FrameFlags.endStream : 0)
        let start = unsafe output.extend(by: FrameLimits.headerBytes + count)
        unsafe start.putFrameHeader(FrameType.headers, flags, lastStream, count)
        _ = unsafe template.writeBlock(of: entry, to: start + FrameLimits.headerBytes)
    }

    // A batch's first request on this connection, and the first one after the peer's table or the fields changed.
    private func appendFirstHeaders(
        of entry: RequestBatch.Entry,
        in batch: RequestBatch,
        _ fields: PoolFields,
        endsStream: Bool
    ) {
        let block = HeaderTemplate.firstBlock(of: entry, in: batch, fields, &table)
        appendHeaders(block, endsStream: endsStream)
        template = batch.count > 1 ? HeaderTemplate(batch: batch, poolFields: fields, table: table) : nil
    }

    // A block of any size: HEADERS, then CONTINUATION.
    private func appendHeaders(_ block: [UInt8], endsStream: Bool) {
        var rest = block[...]
        var type = FrameType.headers
        var flags = endsStream ? FrameFlags.endStream : 0
        repeat {
            let piece = rest.prefix(FrameLimits.payloadBytes)
            rest = rest.dropFirst(piece.count)
            if rest.isEmpty { flags |= FrameFlags.endHeaders }
            output.appendFrameHeader(type, flags: flags, stream: lastStream, payloadCount: piece.count)
            output.append(piece)
            type = FrameType.continuation
            flags = 0
        } while !rest.isEmpty
    }

    // MARK: Other frames

    func appendWindowUpdate(stream: Int32, _ increment: UInt32) {
        output.appendFrame(FrameType.windowUpdate, stream: stream, increment)
    }

    func appendReset(_ stream: Int32, _ code: ErrorCode) {
        output.appendFrame(FrameType.resetStream, stream: stream, code.value)
    }

    func appendPing() {
        output.appendFrame(FrameType.ping, stream: 0, 0, 0)
    }

    func appendGoAway(_ code: ErrorCode) {
        // The last stream of the peer that we acted on: it opens none.
        output.appendFrame(FrameType.goAway, stream: 0, 0, code.value)
    }
}
