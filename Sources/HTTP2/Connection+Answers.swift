internal import OpenSSL

// What comes back, as the session makes it out.
extension Connection: SessionOwner {
    // Takes the bytes of one read, then does what their frames asked for.
    func consume(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let session else { return }
        var fault: ProtocolFault?
        isHandlingFrames = true
        do throws(ProtocolFault) {
            unsafe try session.consume(bytes, now: loop.now, for: self)
        } catch {
            fault = error
        }
        isHandlingFrames = false
        let action = deferredAction
        deferredAction = .none
        perform(action)
        if let fault { breakOff(fault) }
    }

    // The peer broke the protocol: it is told so, as far as the socket takes it.
    private func breakOff(_ fault: ProtocolFault) {
        guard !state.isClosed else { return }
        session?.appendGoAway(fault.code)
        writeOnce()
        fail(.connectionLost, "\(pool.configuration.host) broke HTTP/2: \(fault.text)")
    }

    var wantsFrames: Bool { !state.isClosed }

    func headerReceived(_ slot: Int, _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        guard let position = unsafe pool.wantedFields.position(of: name), !streams[slot].fields.has(position) else {
            return
        }
        let kept = min(value.count, ResponseFields.valueLimit)
        unsafe streams[slot].response.append(contentsOf: value.prefix(kept))
        streams[slot].fields.add(position, count: kept)
    }

    func dataReceived(_ slot: Int, _ bytes: UnsafeBufferPointer<UInt8>) {
        let kept = streams[slot].response.count - streams[slot].fields.count
        let added = min(bytes.count, pool.configuration.maximumBodyBytes - kept)
        if added > 0 { unsafe streams[slot].response.append(contentsOf: bytes.prefix(added)) }
    }

    func settingsReceived(streamLimit: Int) {
        let former = window.limit
        window.peerAnnounced(streamLimit)
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

    func answerEnded(_ slot: Int) {
        if let reference = streams[slot].reference {
            let isFirst = window.answers == 0
            noteAnswer(slot, reference)
            pool.settleAnswer(reference, from: streams[slot])
            if isFirst { firstAnswerCame() }
        }
        release(slot)
    }

    func streamClosed(_ slot: Int, _ code: ErrorCode) {
        if let reference = streams[slot].reference { settle(slot, reference, code) }
        release(slot)
    }

    func isTooLate(_ slot: Int) -> Bool {
        streams[slot].reference.map { pool.isTooLate($0.submission) } ?? false
    }

    func streamExpired(_ slot: Int) {
        if let reference = streams[slot].reference {
            let mayHave = mayHaveBeenProcessed(slot)
            pool.settle(reference, mayHave ? .unanswered(.timedOut) : .expired, mayHaveBeenProcessed: mayHave)
        }
        release(slot)
    }

    // The stream is over and its request settled or queued again.
    func release(_ slot: Int) {
        streams.giveBack(slot)
        let action = state.streamClosed()
        if state.openStreams == 0 { noteIdle() }
        perform(action)
    }

    private func settle(_ slot: Int, _ reference: RequestReference, _ code: ErrorCode) {
        // "Not processed" is only believed of a peer that has not begun to answer.
        if code == .refusedStream, !streams[slot].hasAnswerBegun {
            pool.sendAgain(reference, from: self)
            // More than the peer has room for, whatever it announced.
            window.overloaded()
            noteReset()
        } else {
            let mayHave = mayHaveBeenProcessed(slot)
            pool.settle(reference, .unanswered(.streamReset(code: code.value)), mayHaveBeenProcessed: mayHave)
            noteReset()
        }
    }

    private func noteAnswer(_ slot: Int, _ reference: RequestReference) {
        let status = Int(streams[slot].status)
        window.answered(status: status)
        resetsInARow = 0
        timeoutsInARow = 0
        lastAnswer = loop.now
        if isTrial { pool.trialAnswered() }
        let openedAt = streams[slot].deadline.after(nanoseconds: -reference.submission.timeLimitNanoseconds)
        if latency.note(nanoseconds: loop.now.nanoseconds - openedAt.nanoseconds) {
            window.overloaded(atLeast: Connection.streamsOfSlowPeer)
        }
        // Refusals of all that it was ever sent are the fault of a connection, as long as another one does well.
        note(isBad: status >= 500 || window.isProvisional)
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
