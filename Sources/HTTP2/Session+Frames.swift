// Received frames of streams: which rule of RFC 9113 applies, and what that means for stream or connection.
extension Session {
    // Takes the bytes of one read. A fault ends the connection: say so with `appendGoAway`, then let it go.
    func consume<Owner: SessionOwner>(
        _ bytes: UnsafeBufferPointer<UInt8>,
        now: LoopTime,
        for owner: Owner
    ) throws(ProtocolFault) {
        flood.timePassed(until: now)
        unsafe reader.begin(bytes)
        while let frame = try reader.next() {
            try handle(frame, owner)
            if !owner.wantsFrames { return }
        }
        // Acknowledgements pile up when a peer sends without reading.
        if output.count > Session.mostUnread { throw ProtocolFault(.enhanceYourCalm, "it sends but does not read") }
    }

    // Far more than the requests and bodies that are gathered for one write, and what a read of answers can lead to.
    private static let mostUnread = 256 * 1024

    private func handle<Owner: SessionOwner>(_ frame: Frame, _ owner: Owner) throws(ProtocolFault) {
        if let block = openBlock {
            guard frame.type == FrameType.continuation, frame.stream == block.stream else {
                throw ProtocolFault(.protocolError, "a header block was interrupted")
            }
        } else if !hasPeerSettings {
            // A peer that has no room may say goodbye first.
            guard frame.type == FrameType.settings && !frame.has(FrameFlags.ack) || frame.type == FrameType.goAway
            else {
                throw ProtocolFault(.protocolError, "the first frame is not SETTINGS")
            }
        }
        switch frame.type {
        case FrameType.headers: try handleHeaders(frame, owner)
        case FrameType.data: try handleData(frame, owner)
        case FrameType.continuation: try handleContinuation(frame, owner)
        case FrameType.resetStream: try handleReset(frame, owner)
        case FrameType.windowUpdate: try handleWindowUpdate(frame, owner)
        case FrameType.settings: try handleSettings(frame, owner)
        case FrameType.ping: try handlePing(frame)
        case FrameType.goAway: try handleGoAway(frame, owner)
        case FrameType.priority: try handlePriority(frame, owner)
        case FrameType.pushPromise: throw ProtocolFault(.protocolError, "a push, which our SETTINGS forbid")
        default: try flood.uselessFrame()
        }
    }

    // The slot of a stream that is open; nil for one that is over, of which some frames may still be under way.
    func openSlot(of frame: Frame) throws(ProtocolFault) -> Int? {
        if let slot = streams.slot(of: frame.stream) { return slot }
        guard frame.stream & 1 == 1, frame.stream <= lastStream else {
            throw ProtocolFault(.protocolError, "a frame on a stream that was never opened")
        }
        try flood.uselessFrame()
        return nil
    }

    // Ends a stream from our side.
    func reset<Owner: SessionOwner>(_ slot: Int, _ code: ErrorCode, _ owner: Owner) {
        appendReset(streams[slot].streamID, code)
        owner.streamClosed(slot, code)
    }

    // MARK: Answers

    private func handleHeaders<Owner: SessionOwner>(_ frame: Frame, _ owner: Owner) throws(ProtocolFault) {
        let block = unsafe try frame.content()
        let endsStream = frame.has(FrameFlags.endStream)
        if frame.has(FrameFlags.endHeaders) {
            return unsafe try handleBlock(block, frame, endsStream: endsStream, owner)
        }
        // Before memory is given to it.
        _ = try openSlot(of: frame)
        openBlock = OpenBlock(stream: frame.stream, endsStream: endsStream, bytes: unsafe Array(block))
    }

    private func handleContinuation<Owner: SessionOwner>(_ frame: Frame, _ owner: Owner) throws(ProtocolFault) {
        guard var block = openBlock else { throw ProtocolFault(.protocolError, "CONTINUATION without HEADERS") }
        try flood.uselessFrame()
        openBlock = nil
        guard unsafe block.bytes.count + frame.payload.count <= Session.largestBlock else {
            throw ProtocolFault(.enhanceYourCalm, "an answer's header is larger than 64 KiB")
        }
        unsafe block.bytes.append(contentsOf: frame.payload)
        guard frame.has(FrameFlags.endHeaders) else {
            openBlock = block
            return
        }
        let bytes = PinnedBytes(block.bytes)
        let whole = unsafe UnsafeBufferPointer<UInt8>(start: bytes.base, count: bytes.count)
        try unsafe handleBlock(whole, frame, endsStream: block.endsStream, owner)
        withExtendedLifetime(bytes) {}
    }

    // Decodes every block, also of streams that are over: the table must stay the same on both sides.
    private func handleBlock<Owner: SessionOwner>(
        _ block: UnsafeBufferPointer<UInt8>,
        _ frame: Frame,
        endsStream: Bool,
        _ owner: Owner
    ) throws(ProtocolFault) {
        guard let slot = try openSlot(of: frame) else { return unsafe try decoder.decode(block) { _, _ in } }
        streams[slot].hasAnswerBegun = true
        // What comes after the answer's head are trailers, of which we want nothing.
        let isTrailer = streams[slot].status >= 200
        var check = ResponseCheck(isTrailer: isTrailer)
        unsafe try decoder.decode(block) { name, value in
            if unsafe check.take(name, value), !isTrailer { unsafe owner.headerReceived(slot, name, value) }
        }
        check.end()
        let isInterim = !isTrailer && check.status < 200
        if check.isMalformed || isTrailer && !endsStream || isInterim && endsStream {
            return reset(slot, .protocolError, owner)
        }
        if isInterim {
            streams[slot].forgetAnswer()
            return try flood.uselessFrame()
        }
        if !isTrailer {
            streams[slot].status = check.status
            streams[slot].announcedBytes = check.announcedBytes
        }
        if endsStream { endAnswer(slot, owner) }
    }

    private func handleData<Owner: SessionOwner>(_ frame: Frame, _ owner: Owner) throws(ProtocolFault) {
        if frame.stream == 0 { throw ProtocolFault(.protocolError, "DATA without a stream") }
        let content = unsafe try frame.content()
        received(frame.payloadCount)
        guard let slot = try openSlot(of: frame) else { return }
        let endsStream = frame.has(FrameFlags.endStream)
        if content.isEmpty, !endsStream { try flood.uselessFrame() }
        guard streams[slot].status >= 200 else { return reset(slot, .protocolError, owner) }
        streams[slot].unreturned += UInt32(frame.payloadCount)
        streams[slot].bodyBytes += Int64(content.count)
        unsafe owner.dataReceived(slot, content)
        if endsStream { return endAnswer(slot, owner) }
        // A long body is read to its end though little of it is kept: its window opens as it is used up, so that no peer
        // can overrun it.
        if streams[slot].unreturned >= FrameLimits.defaultWindow / 2 {
            appendWindowUpdate(stream: frame.stream, streams[slot].unreturned)
            streams[slot].unreturned = 0
        }
    }

    private func endAnswer<Owner: SessionOwner>(_ slot: Int, _ owner: Owner) {
        let announced = streams[slot].announcedBytes
        // 304 announces the length of a body that it does not carry.
        let isWhole = announced < 0 || announced == streams[slot].bodyBytes || streams[slot].status == 304
        guard streams[slot].status >= 200, isWhole else { return reset(slot, .protocolError, owner) }
        // The peer has answered before it had the whole request: the rest is not sent.
        if !streams[slot].isFramed { appendReset(streams[slot].streamID, .cancel) }
        owner.answerEnded(slot)
    }

    private func handleReset<Owner: SessionOwner>(_ frame: Frame, _ owner: Owner) throws(ProtocolFault) {
        guard frame.payloadCount == 4 else { throw ProtocolFault(.frameSize, "RST_STREAM of a broken size") }
        // NO_ERROR is no exception: an answer is whole with END_STREAM (RFC 9113, 8.1), and then its stream is over.
        guard let slot = try openSlot(of: frame) else { return }
        owner.streamClosed(slot, ErrorCode(value: frame.number(at: 0)))
    }

    private func handlePriority<Owner: SessionOwner>(_ frame: Frame, _ owner: Owner) throws(ProtocolFault) {
        guard frame.stream != 0 else { throw ProtocolFault(.protocolError, "PRIORITY without a stream") }
        try flood.uselessFrame()
        if frame.payloadCount != 5, let slot = streams.slot(of: frame.stream) { reset(slot, .frameSize, owner) }
    }
}
