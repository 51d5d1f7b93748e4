// Time: connecting, requests, PING, idleness, age. One entry in the loop's heap serves them all.
extension Connection {
    func wake(at time: LoopTime) {
        guard time < nextWake else { return }
        nextWake = time
        loop.timers.add(.connection(id), at: time)
    }

    func timerFired() {
        nextWake = .never
        if loop.now >= phaseDeadline, !state.isActive { return phaseTimedOut() }
        if state.isInTCP, loop.now >= addressDeadline {
            addressTimedOut()
            if state.isClosed { return }
        }
        if loop.now >= nextSweep { sweep() }
        checkLiveness()
        if state.isClosed { return }
        if loop.now >= retireAt || idleDeadline <= loop.now {
            retireAt = .never
            retire()
        }
        if state.isClosed { return }
        if !state.isActive { wake(at: phaseDeadline) }
        if state.isInTCP { wake(at: addressDeadline) }
        wake(at: min(nextSweep, retireAt, idleDeadline, livenessDeadline))
    }

    private func phaseTimedOut() {
        if state.isInTCP {
            trouble = trouble ?? "no TCP connection within \(pool.configuration.connectTimeout)"
        } else if state.isConnecting {
            let stage = state.isInTLS ? "TLS handshake" : "SETTINGS"
            trouble = "no \(stage) from the peer within \(pool.configuration.handshakeTimeout)"
        } else {
            trouble =
                "answers were still out \(pool.configuration.drainLimit) after the connection stopped taking requests"
        }
        perform(state.phaseDeadlinePassed())
    }

    // MARK: Requests

    // When a stream is given up: at its time limit, or before at the deadline of a request that is not out whole.
    func endOfTime(_ slot: Int, _ submission: Submission) -> LoopTime {
        let timeLimit = streams[slot].deadline
        return streams[slot].isFramed ? timeLimit : min(timeLimit, submission.expiresAt)
    }

    // Resets the streams whose time is over, and finds the next one. Runs once per time limit, not per request.
    private func sweep() {
        nextSweep = .never
        guard let session else { return }
        for slot in 0..<streams.capacity {
            guard let reference = streams[slot].reference else { continue }
            let end = endOfTime(slot, reference.submission)
            guard end <= loop.now else {
                nextSweep = min(nextSweep, end)
                continue
            }
            if end < streams[slot].deadline {
                session.expire(slot, self)
                if state.isClosed { return }
                continue
            }
            // What is framed whole and waits for the socket goes out yet, before its reset: the connection lives on.
            let mayHave = streams[slot].isFramed || mayHaveBeenProcessed(slot)
            pool.settle(reference, .unanswered(.timedOut), mayHaveBeenProcessed: mayHave)
            let openedAt = streams[slot].deadline.after(nanoseconds: -reference.submission.timeLimitNanoseconds)
            if lastAnswer < openedAt { timeoutsInARow += 1 }
            note(isBad: true)
            session.appendReset(streams[slot].streamID, .cancel)
            release(slot)
            if state.isClosed { return }
        }
        pool.isDirty = true
        // One silent stream says nothing about the others. Several that saw no answer to anything all their life do:
        // the peer may still answer PING, but what waits should go elsewhere.
        if timeoutsInARow >= 3 { retire() }
    }

    // MARK: Liveness

    private var quietLimit: Duration? {
        state.openStreams > 0 ? pool.configuration.pingAfterQuiet : pool.configuration.pingAfterIdle
    }

    private var livenessDeadline: LoopTime {
        guard state.hasSession else { return .never }
        if let pingSentAt { return pingSentAt + pool.configuration.pingTimeout }
        guard let quietLimit else { return .never }
        return max(lastRead, busySince) + quietLimit
    }

    private func checkLiveness() {
        // Anything read since the PING shows that the peer lives.
        if let sent = pingSentAt, lastRead > sent { pingSentAt = nil }
        guard livenessDeadline <= loop.now else { return }
        if pingSentAt != nil {
            return fail(.connectionLost, "no answer to a PING within \(pool.configuration.pingTimeout)")
        }
        pingSentAt = loop.now
        session?.appendPing()
        pool.isDirty = true
    }

    // MARK: Idleness

    private var idleDeadline: LoopTime {
        guard state.isActive, state.openStreams == 0, let limit = pool.configuration.idleTimeout,
            pool.hasSpareConnection
        else { return .never }
        return idleSince + limit
    }

    func noteIdle() {
        idleSince = loop.now
        wake(at: min(idleDeadline, livenessDeadline))
    }

    func noteBusy() {
        // Quiet counts from the first request on.
        busySince = loop.now
        wake(at: livenessDeadline)
    }
}
