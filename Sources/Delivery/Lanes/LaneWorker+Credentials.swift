import HTTP2
import PushCore
import Telemetry

// Credentials: bearers are fetched and renewed, refusals are looked into, apart from the sending.
extension LaneWorker {
    /// How often the bearers in use are looked at.
    private static let refreshInterval: Duration = .seconds(2)
    /// How long the rest of a send waits that is held for its credential.
    private static let holdWait: Duration = .seconds(60)
    /// How long messages wait when the provider cannot be asked about their credential.
    private static let askAgainWait: Duration = .seconds(10)
    /// How long messages wait whose credential does not open here while another one of their app does.
    static let unreadableWait: Duration = .seconds(5)

    /// So many credentials that are not in use are remembered.
    private static let remembered = 1_000

    /// Runs errands as they come up, each on its own: one silent endpoint holds nobody else.
    func tendCredentials() async {
        defer {
            isTendingCredentials = false
            inbox.signal.wake()
        }
        await withDiscardingTaskGroup { group in
            var lookAt = ContinuousClock.now
            while !isStopping {
                // Not with each errand: what a look brings up may be an errand again.
                if .now >= lookAt {
                    lookAt = .now + Self.refreshInterval
                    lookAtBearers()
                }
                for errand in takeErrands() {
                    group.addTask { await self.do(errand) }
                }
                await credentialSignal.wait(until: lookAt)
            }
            // What came up last is still noted, and nobody is asked any more.
            for errand in takeErrands() where errand.isNote {
                group.addTask { await self.do(errand) }
            }
        }
    }

    /// Leaves something to the credential loop.
    func run(_ errand: CredentialErrand) {
        if case .fetch(let credential) = errand {
            guard fetching.insert(credential.version).inserted else { return }
        }
        errands.append(errand)
        credentialSignal.wake()
    }

    private func takeErrands() -> [CredentialErrand] {
        defer { errands.removeAll(keepingCapacity: true) }
        return errands
    }

    /// Has each bearer in use looked at, and forgets what is not in use.
    private func lookAtBearers() {
        var used: [ProviderCredential.Version: ProviderCredential] = [:]
        for batch in batches.values {
            if let credential = batch.dispatch?.credential ?? batch.awaited { used[credential.version] = credential }
        }
        for (version, credential) in used where !fetching.contains(version) {
            fetching.insert(version)
            errands.append(.fetch(credential))
        }
        forgetCredentials(but: used, now: .now)
    }

    /// Bounds what is remembered of credentials that are not in use.
    private func forgetCredentials(
        but used: [ProviderCredential.Version: ProviderCredential],
        now: ContinuousClock.Instant
    ) {
        gates.keep { version, gate in
            if let until = gate.heldUntil { return until > now }
            return used[version] != nil || gate.closedReason != nil
        }
        gates.trim(to: Self.remembered) { version, gate in used[version] != nil || gate.closedReason == nil }
        bearers.trim(to: Self.remembered) { version, _ in used[version] != nil }
        alerts.trim(to: Self.remembered) { version, _ in used[version] != nil }
        paces.trim(to: Self.remembered) { version, pace in used[version] != nil || pace.isLimited }
        breakers.trim(to: Self.remembered) { version, breaker in used[version] != nil || breaker.isAlarmed(now: now) }
    }

    private func `do`(_ errand: CredentialErrand) async {
        switch errand {
        case .fetch(let credential):
            let answer = await tokens.bearer(for: credential)
            fetching.remove(credential.version)
            take(answer, for: credential)
        case .probe(let credential, let isExpired):
            await renew(credential, isExpired: isExpired)
        case .examine(let device, let job, let credential):
            await examine(device, of: job, under: credential)
        case .ask(let credential):
            await ask(credential)
        case .hold(let credential, let wait, let reason):
            await note(credential) { try await store.hold(credential, for: wait, reason: reason) }
        case .followDeadTokens:
            await followDeadTokens()
        case .refuse(let credential, let reason):
            await note(credential) { try await store.refuse(credential, reason: reason) }
        }
    }

    private func note(_ credential: ProviderCredential, _ write: () async throws -> Void) async {
        do {
            try await write()
        } catch {
            logger.warning(
                "What a provider said of a credential could not be noted in the database",
                [.credentialID: .describing(credential.id), .errorMessage: .text("\(error)")]
            )
        }
    }

    private func take(_ answer: BearerAnswer, for credential: ProviderCredential) {
        switch answer {
        case .bearer(let bearer):
            use(bearer, for: credential)
            for batch in batches.values where batch.awaited?.version == credential.version {
                send(batch, with: credential)
            }
        case .unavailable(let answer):
            if answer.isRefusal { run(.refuse(credential, reason: answer.reason)) }
            for batch in batches.values where batch.awaited?.version == credential.version {
                if answer.isRefusal {
                    endAfterRefusal(batch, reason: answer.reason)
                } else {
                    let jitter = Duration.milliseconds(Int64.random(in: 0...1_000))
                    delay(batch, by: answer.retryAfter + jitter, reason: answer.reason)
                }
            }
        }
    }

    private func use(_ bearer: Bearer, for credential: ProviderCredential) {
        bearers[credential.version] = bearer
        do {
            _ = try pools.pool(for: credential, bearer: bearer)
        } catch {
            logger.error(
                "A bearer cannot stand in a header field",
                [.credentialID: .describing(credential.id), .errorMessage: .text(error.message)]
            )
        }
    }

    // MARK: Refusals

    /// The provider refused the credential in its answer to a message, which is parked.
    func credentialRefused(_ batch: BatchInHand, request: UInt32, status: Int, reason: String, isExpired: Bool) {
        guard let credential = batch.dispatch?.credential else { return }
        batch.parked.append(request)
        batch.refused[request] = status
        let message = CredentialGate.Probe(batch: batch.number, request: request)
        let action = gates[credential.version, default: CredentialGate()].refused(message, reason: reason)
        follow(action, for: credential, isExpired: isExpired)
    }

    /// The provider answered a message in a way that accepts the credential.
    func credentialAccepted(_ batch: BatchInHand, request: UInt32) {
        guard let credential = batch.dispatch?.credential, var gate = gates[credential.version] else { return }
        let action = gate.answered(CredentialGate.Probe(batch: batch.number, request: request))
        gates[credential.version] = gate
        follow(action, for: credential, isExpired: false)
    }

    /// A message came back without an answer: if it was the probe, another one is sent.
    func loseProbe(of batch: BatchInHand, request: UInt32? = nil) {
        guard let credential = batch.dispatch?.credential, let probe = gates[credential.version]?.probe,
            probe.batch == batch.number, request == nil || request == probe.request
        else { return }
        gates[credential.version]?.probeLost(probe)
    }

    private func follow(_ action: CredentialGate.Action, for credential: ProviderCredential, isExpired: Bool) {
        switch action {
        case .none: break
        case .probe:
            for batch in using(credential) where batch.outstanding > 0 { client.cancel(tag: batch.number) }
            run(.probe(credential, isExpired: isExpired))
        case .open:
            gates[credential.version] = nil
            for batch in using(credential) {
                batch.waiting += batch.parked
                batch.parked = []
                advance(batch)
            }
        case .close(APNsReason.expiredProviderToken):
            waitForClock(credential)
        case .close(let reason):
            run(.refuse(credential, reason: reason))
            for batch in using(credential) { endAfterRefusal(batch, reason: reason) }
        }
    }

    /// A provider token made a moment ago is called too old: a clock is wrong, and the key is not to blame. Everything
    /// of the credential waits, so that it goes on by itself when the clock is right again. Not for a moment only: each
    /// try costs a new provider token, and Apple wants few.
    private func waitForClock(_ credential: ProviderCredential) {
        logger.warning(
            "A provider token made just now is called expired: this machine's clock is slow, and messages wait",
            [
                .credentialID: .describing(credential.id), .appID: .describing(credential.app),
                .providerReason: .text(APNsReason.expiredProviderToken),
                .errorMessage: "Set the clock; compare it with the Date header of any answer from the internet",
            ]
        )
        gates[credential.version]?.hold(until: .now + settings.clockWait)
        for batch in using(credential) { delay(batch, by: settings.clockWait, reason: APNsReason.expiredProviderToken) }
    }

    private func renew(_ credential: ProviderCredential, isExpired: Bool) async {
        var answer = await tokens.bearer(for: credential)
        if let refused = bearers[credential.version] {
            answer = await tokens.renew(credential, refused: refused, isExpired: isExpired)
        }
        switch answer {
        case .bearer(let bearer):
            use(bearer, for: credential)
            pools.renewConnections(of: credential)
            gates[credential.version]?.renewed()
            sendProbe(of: credential)
        case .unavailable(let answer):
            // What was refused is not sent with again, even if its time is not over.
            bearers[credential.version] = nil
            if answer.isRefusal {
                gates[credential.version]?.close(reason: answer.reason)
                follow(.close(reason: answer.reason), for: credential, isExpired: false)
                return
            }
            gates[credential.version] = nil
            for batch in using(credential) { delay(batch, by: answer.retryAfter, reason: answer.reason) }
        }
    }

    /// Sends one message of a credential that is in doubt. Without any message there is nothing to find out.
    func sendProbe(of credential: ProviderCredential) {
        guard let gate = gates[credential.version], gate.wantsProbe else { return }
        let now = ContinuousClock.now
        for batch in using(credential).sorted(by: { $0.parked.count > $1.parked.count }) {
            let suspect = gate.suspect?.batch == batch.number ? gate.suspect?.request : nil
            guard let dispatch = batch.dispatch, let request = batch.takeProbe(now: now, otherThan: suspect) else {
                continue
            }
            gates[credential.version]?.probing(with: CredentialGate.Probe(batch: batch.number, request: request))
            client.submit(dispatch.requests, tag: batch.number, requests: .indices([request]), to: dispatch.pool)
            return
        }
        if using(credential).contains(where: { !$0.parked.isEmpty && $0.canSend(now: now) }) {
            gates[credential.version]?.probing(with: .own)
            return run(.ask(credential))
        }
        // Those that have a message may only be waiting for their lease to be renewed.
        if !using(credential).contains(where: \.lifecycle.isSending) { gates[credential.version] = nil }
    }

    /// Asks the provider about a credential with a request that no device gets.
    private func ask(_ credential: ProviderCredential) async {
        let finding: CredentialProbe.Finding
        do {
            guard let bearer = bearers[credential.version] else {
                throw DeliveryError(.configuration, "The bearer of credential \(credential.id) is gone")
            }
            let pool = try pools.pool(for: credential, bearer: bearer)
            finding = try await CredentialProbe.ask(credential, client, pool)
        } catch {
            finding = .undecided(credential.id, error)
        }
        guard var gate = gates[credential.version], gate.probe == .own else { return }
        switch finding.verdict {
        case .accepted:
            let action = gate.answered(.own)
            gates[credential.version] = gate
            follow(action, for: credential, isExpired: false)
        case .refused:
            let action = gate.refused(.own, reason: finding.reason)
            gates[credential.version] = gate
            follow(action, for: credential, isExpired: false)
        case .undecided:
            logger.warning(
                "A credential is in doubt and its provider cannot be asked: its messages wait",
                [.credentialID: .describing(credential.id), .errorMessage: .text(finding.advice)]
            )
            gates[credential.version] = nil
            for batch in using(credential) { delay(batch, by: Self.askAgainWait, reason: "credential_in_doubt") }
        }
    }

    /// None of the app's credentials opens here. Its batches are anyone's again, and this worker passes the app by until
    /// the credentials are read anew: another one may have the key.
    func leaveToOthers(_ batch: BatchInHand) {
        unreadableApps[batch.row.app] = .now + store.refresh
        // What cannot be begun here is no poison.
        batch.hasProgress = true
        withdraw(batch, .released)
    }

    /// The apps that are not claimed now because none of their credentials opens here.
    func appsLeftToOthers(now: ContinuousClock.Instant) -> Set<AppID> {
        if !unreadableApps.isEmpty { unreadableApps = unreadableApps.filter { $0.value > now } }
        return Set(unreadableApps.keys)
    }

    func using(_ credential: ProviderCredential) -> [BatchInHand] {
        batches.values.filter { $0.dispatch?.credential.version == credential.version }
    }

    /// What the app wants done with the rest of a send whose credential is refused.
    func endAfterRefusal(_ batch: BatchInHand, reason: String) {
        if jobs[batch.row.job]?.holdsOnCredentialFailure ?? false {
            delay(batch, by: Self.holdWait, reason: reason)
        } else {
            batch.failureReason = reasons.index(of: reason)
            withdraw(batch, .failed)
        }
    }
}
