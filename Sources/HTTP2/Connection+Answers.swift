internal import CNghttp2
internal import OpenSSL

// What comes back. All of these are called by nghttp2 (SessionCallbacks.swift).
extension Connection {
    func headerReceived(_ slot: Int, _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        if streams[slot].isSettled { return }
        // ":status" is the only response field of that length that begins with a colon.
        if name.count == 7, unsafe name[0] == UInt8(ascii: ":") {
            // An answer of 1xx may have come before, with fields that are not this answer's.
            streams[slot].fields = ResponseFields()
            streams[slot].response.removeAll(keepingCapacity: true)
            streams[slot].status = unsafe value.reduce(0) { $0 &* 10 &+ UInt16($1 &- 0x30) }
            return
        }
        // Fields stand before the body; trailers, which come after it, are of no use to anyone.
        guard streams[slot].response.count == streams[slot].fields.count,
            let position = unsafe pool.wantedFields.position(of: name), !streams[slot].fields.has(position)
        else { return }
        let kept = min(value.count, ResponseFields.valueLimit)
        unsafe streams[slot].response.append(contentsOf: value.prefix(kept))
        streams[slot].fields.add(position, count: kept)
    }

    func dataReceived(_ slot: Int, _ bytes: UnsafeBufferPointer<UInt8>) {
        if streams[slot].isSettled { return }
        let kept = streams[slot].response.count - streams[slot].fields.count
        let added = min(bytes.count, pool.configuration.maximumBodyBytes - kept)
        if added > 0 { unsafe streams[slot].response.append(contentsOf: bytes.prefix(added)) }
    }

    func settingsReceived() {
        guard let session else { return }
        let former = window.limit
        window.peerAnnounced(session.peerStreamLimit)
        perform(state.settingsReceived())
        if window.limit != former { pool.limitChanged() }
    }

    func goAwayReceived(code: UInt32, debug: UnsafeBufferPointer<UInt8>) {
        // Two belong to an orderly end. A peer that goes on saying it is told of no further.
        goAways += 1
        if goAways > 2 { return }
        let text = unsafe String(decoding: debug.prefix(256), as: UTF8.self)
        let said = text.isEmpty ? "" : ", which said: \(text)"
        trouble = "GOAWAY (code \(code)) from \(pool.configuration.host)\(said)"
        pool.goAwayReceived(code: code, message: trouble ?? "")
        perform(state.goAwayReceived())
    }

    func streamClosed(_ slot: Int, code: UInt32) {
        if let reference = streams[slot].reference, !streams[slot].isSettled { settle(slot, reference, code) }
        streams.giveBack(slot)
        let action = state.streamClosed()
        if state.openStreams == 0 { noteIdle() }
        perform(action)
    }

    private func settle(_ slot: Int, _ reference: RequestReference, _ code: UInt32) {
        if code == NGHTTP2_NO_ERROR.rawValue, streams[slot].status >= 200 {
            let isFirst = window.answers == 0
            noteAnswer(slot, reference)
            pool.settleAnswer(reference, from: streams[slot])
            if isFirst { firstAnswerCame() }
        } else if code == NGHTTP2_REFUSED_STREAM.rawValue {
            pool.sendAgain(reference)
            // More than the peer has room for, whatever it announced.
            window.overloaded()
            noteReset()
        } else {
            let mayHave = mayHaveBeenProcessed(slot)
            pool.settle(reference, .unanswered(.streamReset(code: code)), mayHaveBeenProcessed: mayHave)
            noteReset()
        }
    }

    private func noteAnswer(_ slot: Int, _ reference: RequestReference) {
        let status = Int(streams[slot].status)
        window.answered(status: status)
        resetsInARow = 0
        timeoutsInARow = 0
        lastAnswer = loop.now
        let openedAt = streams[slot].deadline.after(nanoseconds: -reference.submission.timeLimitNanoseconds)
        if latency.note(nanoseconds: loop.now.nanoseconds - openedAt.nanoseconds) {
            window.overloaded(atLeast: Connection.streamsOfSlowPeer)
        }
        note(isBad: status >= 500)
    }

    // Slowness alone never takes more streams than that: few streams cannot be what makes a peer slow (a guess).
    private static let streamsOfSlowPeer = 8

    private func noteReset() {
        note(isBad: true)
        resetsInARow += 1
        // A peer that resets everything without a GOAWAY is of no use (case: for six hours).
        if resetsInARow == 64 { retire() }
    }

    func note(isBad: Bool) {
        health.note(isBad: isBad)
        if isBad, health.isSick { pool.considerEjecting(self) }
    }

    private func firstAnswerCame() {
        pool.connectionAnswered()
        // Tickets have come by now; one is enough for the pool's next connection.
        if let session = tls?.resumableSession() { pool.tlsSession = session }
    }
}
