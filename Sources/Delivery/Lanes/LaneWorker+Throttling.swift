import HTTP2
import PushCore
import Telemetry

// Throttling: a provider that asks for less gets less, of everything that is sent with the credential or account.
extension LaneWorker {
    /// What an answer that asks to come back later means for all the others.
    ///
    /// One device that gets too much is nobody else's matter, unless it is said of most. A wait that the provider names,
    /// or that FCM wants after 429, holds the account; afterwards, and after any other 429, messages go out more slowly.
    func heed(_ advice: RetryAdvice, status: Int, reason: String, of credential: ProviderCredential) {
        let now = ContinuousClock.now
        let isRefusal = status == 429
        let version = credential.version
        // Told once, not each time that it is said again.
        let level: Logger.Level = paces[version]?.isLimited ?? false ? .debug : .warning
        switch advice.obstacle {
        case .connection:
            return
        case .device:
            guard isRefusal, paces[version, default: SendingPace()].refusedForDevice(now: now) else { return }
            logSlower(credential, reason: reason, level)
        case .provider:
            if isRefusal || status == 503 { pools.reportOverload(of: credential) }
            guard isRefusal || advice.minimum != nil else { return }
            if paces[version, default: SendingPace()].refused(now: now) { logSlower(credential, reason: reason, level) }
            // Too many provider tokens came over one connection: another one takes the one in hand.
            guard let wait = advice.minimum, reason != APNsReason.tooManyProviderTokenUpdates else { return }
            hold(credential, for: wait, reason: reason, now: now, level)
        }
    }

    private func hold(
        _ credential: ProviderCredential,
        for wait: Duration,
        reason: String,
        now: ContinuousClock.Instant,
        _ level: Logger.Level
    ) {
        guard holds.hold(credential.counted, until: now + wait, reason: reason, now: now),
            let hold = holds.hold(of: credential.counted, now: now)
        else { return }
        paces[credential.version]?.rest(until: hold.until)
        logger.log(
            level,
            "A provider asks to wait: nothing is sent for the account of this credential until then",
            [
                .credentialID: .describing(credential.id), .appID: .describing(credential.app),
                .providerReason: .text(reason),
                .durationMilliseconds: .milliseconds(hold.until - now),
            ]
        )
        run(.hold(credential, hold.until - now, reason: reason))
        for batch in batches.values where batch.dispatch?.credential.counted == credential.counted {
            setAside(batch, hold, now: now)
        }
    }

    /// Sets a batch aside that its account's hold keeps from being sent. True if it does.
    func isHeld(_ batch: BatchInHand, by credential: ProviderCredential, now: ContinuousClock.Instant) -> Bool {
        guard let hold = holds.hold(of: credential.counted, now: now) else { return false }
        setAside(batch, hold, now: now)
        return true
    }

    // They do not all come back in the same moment.
    private func setAside(_ batch: BatchInHand, _ hold: ProviderHolds.Hold, now: ContinuousClock.Instant) {
        guard batch.lifecycle.isSending else { return }
        let wait = hold.until - now
        let jitter = max(.seconds(1), min(.seconds(10), wait / 10)) * Double.random(in: 0...1)
        delay(batch, by: wait + jitter, atLeast: wait, reason: hold.reason)
    }

    /// The requests of a batch that may be submitted now, as its credential's pace has it.
    func takeRequests(
        of batch: BatchInHand,
        under credential: ProviderCredential,
        now: ContinuousClock.Instant
    ) -> RequestSelection? {
        // What is over its time goes to the client, which says so and sends nothing.
        guard paces[credential.version]?.isLimited ?? false, batch.deadline > WallClock.now() else {
            return batch.takeRequests(now: now)
        }
        let before = batch.outstanding
        let allowed = paces[credential.version, default: SendingPace()].allowed(now: now)
        let requests = batch.takeRequests(now: now, atMost: allowed)
        paces[credential.version, default: SendingPace()].spend(batch.outstanding - before)
        return requests
    }

    private func logSlower(_ credential: ProviderCredential, reason: String, _ level: Logger.Level) {
        let rate = paces[credential.version]?.messagesPerSecond ?? 0
        logger.log(
            level,
            "A provider asks for less: messages of this credential go out more slowly, and faster again by and by",
            [
                .credentialID: .describing(credential.id), .appID: .describing(credential.app),
                .providerReason: .text(reason), .count: .number(Int(rate)),
            ]
        )
    }
}
