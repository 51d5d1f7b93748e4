import CNghttp2

/// GOAWAY, PINGs, stream limits and what scripts do to a connection.
extension ServerConnection {
    /// A PING came; FCM loses patience with those who only ping.
    func countPing() {
        record.pings += 1
        pingsSinceRequest += 1
        guard role == .fcm, let most = loop.fcm.maximumIdlePings, pingsSinceRequest > most else { return }
        pingsSinceRequest = 0
        let calm = NGHTTP2_ENHANCE_YOUR_CALM.rawValue
        send(GoAway(errorCode: calm, debugData: "too_many_pings"))
    }

    /// Ends a connection that has been idle for too long, if the role does that.
    func endIfIdle(now: Int64) -> Bool {
        guard role == .fcm, phase == .open, openStreams == 0, let limit = loop.fcm.idleTimeoutMilliseconds,
            now - lastRequestAt > Int64(limit), !isFrozen
        else { return false }
        lastRequestAt = now
        send(GoAway(debugData: "session_timed_out"))
        return true
    }

    private func countBadToken(_ decision: Decision) {
        guard decision.reason == "BadDeviceToken", let most = loop.apns.goAwayAfterBadTokens else { return }
        badTokens += 1
        if badTokens == most { send(GoAway(debugData: "{\"reason\":\"BadDeviceToken\"}")) }
    }

    func adjustStreams(after decision: Decision) {
        countBadToken(decision)
        guard role.isAPNs, loop.apns.lowersStreamsAfterRejection, decision.status >= 400, decision.status != 410 else {
            return
        }
        if announcedStreams > 1 { announce(streams: 1, isScripted: false) }
    }

    func announce(streams: UInt32, isScripted: Bool = true) {
        if isScripted { hasScriptedStreams = true }
        announcedStreams = streams
        http?.submit(settings: [(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams)])
    }

    func announce(initialWindow bytes: UInt32) {
        http?.submit(settings: [(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, min(bytes, UInt32(Int32.max)))])
    }

    func send(_ plan: GoAway) {
        guard let http else { return }
        // Between the two steps of a graceful end the session has nothing to do, but the socket must stay.
        keepsOpenAfterGoAway = plan.then == .keepOpen || plan.lastStream == .graceful
        if plan.lastStream == .graceful {
            http.submitShutdownNotice()
            if plan.then == .refuseNew {
                refusesNewStreams = true
            } else {
                loop.goAwayLater(plan, on: self)
            }
            return
        }
        let last: Int32 =
            switch plan.lastStream {
            case .graceful, .newest: newestStream
            // What was answered was processed.
            case .belowNewest(let count): max(newestAnswered, newestStream - 2 * Int32(clamping: count))
            case .zero: 0
            }
        exclude(above: last)
        http.goAway(lastStream: last, code: plan.errorCode, debugData: plan.debugData)
        if plan.then == .closeNow { phase = .closing }
    }

    /// Requests above a GOAWAY's last stream that have no answer yet are not processed, whatever was decided.
    private func exclude(above last: Int32) {
        lastStream = min(lastStream, last)
        for case let slot? in slots where slot.streamID > last {
            guard let entry = slot.entry else { continue }
            slot.entry = nil
            loop.retract(entry)
        }
    }

    /// The client opened more streams than it may. The session's own GOAWAY follows this one.
    func brokeRules(openingStream stream: Int32) {
        guard stream > newestStream, openStreams >= Int(announcedStreams) else { return }
        http?.goAway(
            lastStream: newestStream,
            code: NGHTTP2_PROTOCOL_ERROR.rawValue,
            debugData: "exceeded_max_concurrent_streams"
        )
    }

    /// Something from `SimulatorControl.perform`; `flush` follows.
    func perform(_ action: SimulatorControl.Action) {
        guard phase == .open, !isFrozen else { return }
        switch action {
        case .goAway(let plan): send(plan)
        case .settings(let streams): announce(streams: streams)
        case .initialWindow(let bytes): announce(initialWindow: bytes)
        case .drop(let cut): fate = cut == .reset ? .reset : .close
        case .stopReading: freeze()
        case .stopAnswering: isMute = true
        }
    }

    func freeze() {
        isFrozen = true
        loop.stopWatching(self)
    }
}
