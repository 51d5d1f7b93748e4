// Received frames of the connection: SETTINGS, PING, GOAWAY and the windows.
extension Session {
    func handleSettings<Owner: SessionOwner>(_ frame: Frame, _ owner: Owner) throws(ProtocolFault) {
        guard frame.stream == 0 else { throw ProtocolFault(.protocolError, "SETTINGS on a stream") }
        try flood.uselessFrame()
        if frame.has(FrameFlags.ack) {
            guard frame.payloadCount == 0 else { throw ProtocolFault(.frameSize, "SETTINGS ACK with content") }
            guard awaitsSettingsAck else { throw ProtocolFault(.protocolError, "SETTINGS ACK for nothing") }
            awaitsSettingsAck = false
            return
        }
        guard frame.payloadCount % 6 == 0 else { throw ProtocolFault(.frameSize, "SETTINGS of a broken size") }
        // A peer that does not limit its streams at all leaves the limit to us.
        if !hasPeerSettings { peerStreamLimit = Int(UInt32.max) }
        hasPeerSettings = true
        let formerWindow = initialSendWindow
        for offset in stride(from: 0, to: frame.payloadCount, by: 6) {
            let id = unsafe UInt16(frame.payload[offset]) << 8 | UInt16(frame.payload[offset + 1])
            try apply(id, frame.number(at: offset + 2))
        }
        try moveWindows(by: initialSendWindow - formerWindow)
        // What was framed before the acknowledgement obeys the former settings, what follows it these.
        output.appendFrame(FrameType.settings, flags: FrameFlags.ack, stream: 0)
        owner.settingsReceived(streamLimit: peerStreamLimit)
    }

    private func apply(_ id: UInt16, _ value: UInt32) throws(ProtocolFault) {
        switch id {
        case SettingID.headerTableSize:
            table.peerAllows(Int(value))
        case SettingID.enablePush:
            guard value == 0 else { throw ProtocolFault(.protocolError, "SETTINGS of a server that allow a push") }
        case SettingID.maximumConcurrentStreams:
            peerStreamLimit = Int(value)
        case SettingID.initialWindowSize:
            guard Int64(value) <= FrameLimits.largestWindow else {
                throw ProtocolFault(.flowControl, "SETTINGS with a window beyond 2^31-1")
            }
            initialSendWindow = Int64(value)
        case SettingID.maximumFrameSize:
            // We never use more than the least that is allowed.
            guard value >= 16_384, value < 1 << 24 else {
                throw ProtocolFault(.protocolError, "SETTINGS with a frame size that HTTP/2 does not allow")
            }
        case SettingID.maximumHeaderListSize:
            peerHeaderLimit = Int(value)
        default: break
        }
    }

    // The initial window also moves the windows of the streams that are open, below zero if need be.
    private func moveWindows(by change: Int64) throws(ProtocolFault) {
        if change == 0 { return }
        for slot in 0..<streams.capacity where streams[slot].reference != nil {
            streams[slot].sendWindow += change
            guard streams[slot].sendWindow <= FrameLimits.largestWindow else {
                throw ProtocolFault(.flowControl, "SETTINGS move a stream's window beyond 2^31-1")
            }
        }
        if change > 0 { mayUnblock = true }
    }

    func handlePing(_ frame: Frame) throws(ProtocolFault) {
        guard frame.stream == 0 else { throw ProtocolFault(.protocolError, "PING on a stream") }
        guard frame.payloadCount == 8 else { throw ProtocolFault(.frameSize, "PING of a broken size") }
        try flood.uselessFrame()
        // That something was read at all is what our own PING wanted to know.
        if frame.has(FrameFlags.ack) { return }
        output.appendFrame(
            FrameType.ping,
            flags: FrameFlags.ack,
            stream: 0,
            frame.number(at: 0),
            frame.number(at: 4)
        )
    }

    func handleGoAway<Owner: SessionOwner>(_ frame: Frame, _ owner: Owner) throws(ProtocolFault) {
        guard frame.stream == 0 else { throw ProtocolFault(.protocolError, "GOAWAY on a stream") }
        guard frame.payloadCount >= 8 else { throw ProtocolFault(.frameSize, "GOAWAY of a broken size") }
        try flood.uselessFrame()
        let last = Int32(bitPattern: frame.number(at: 0) & 0x7FFF_FFFF)
        guard last == 0 || last & 1 == 1, last <= lastGoAway else {
            throw ProtocolFault(.protocolError, "GOAWAY with a last stream that is not ours or has risen")
        }
        lastGoAway = last
        let debug = unsafe UnsafeBufferPointer(rebasing: frame.payload[8...])
        unsafe owner.goAwayReceived(code: frame.number(at: 4), debug: debug)
        // Above the last stream nothing was processed.
        for slot in 0..<streams.capacity where streams[slot].streamID > last {
            owner.streamClosed(slot, .refusedStream)
        }
    }

    // MARK: Windows

    func handleWindowUpdate<Owner: SessionOwner>(_ frame: Frame, _ owner: Owner) throws(ProtocolFault) {
        guard frame.payloadCount == 4 else { throw ProtocolFault(.frameSize, "WINDOW_UPDATE of a broken size") }
        try flood.uselessFrame()
        let increment = Int64(frame.number(at: 0) & 0x7FFF_FFFF)
        guard frame.stream != 0 else { return try grow(by: increment) }
        guard let slot = try openSlot(of: frame) else { return }
        streams[slot].sendWindow += increment
        mayUnblock = true
        if increment == 0 {
            reset(slot, .protocolError, owner)
        } else if streams[slot].sendWindow > FrameLimits.largestWindow {
            reset(slot, .flowControl, owner)
        }
    }

    private func grow(by increment: Int64) throws(ProtocolFault) {
        guard increment > 0 else { throw ProtocolFault(.protocolError, "WINDOW_UPDATE of 0") }
        sendWindow += increment
        mayUnblock = true
        guard sendWindow <= FrameLimits.largestWindow else {
            throw ProtocolFault(.flowControl, "the connection's window grows beyond 2^31-1")
        }
    }

    // Counts received DATA, padding included, and opens the connection's window again in large steps.
    func received(_ bytes: Int) {
        unreturned += Int64(bytes)
        guard unreturned >= Session.receiveWindow / 2 else { return }
        appendWindowUpdate(stream: 0, UInt32(unreturned))
        unreturned = 0
    }
}
