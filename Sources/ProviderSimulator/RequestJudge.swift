/// Decides what each request is answered. Knows the protocols of the providers and the script, but no sockets.
///
/// Belongs to the loop's thread.
final class RequestJudge {
    /// What a connection contributes to the decision.
    struct Origin {
        let role: ProviderRole
        let connection: Int
        var trust = ProviderTokenVerifier.ConnectionState()
    }

    private struct LimitWindow {
        var startedAt: Int64 = 0
        var count = 0
        var refused = 0
    }

    private let options: SimulatorOptions
    private let control: SimulatorControl
    private let clock: SimulatorClock
    private let store: CredentialStore
    private let devices: DeviceRegistry
    private var credentialsVersion = 0
    private let verifier: ProviderTokenVerifier
    private var oauth: OAuthService
    private let fcm: FCMService
    private var accessTokens = AccessTokens()
    private var accessTokenEpoch = 0
    private var scriptVersion = 0
    private(set) var script = SimulatorControl.Script()
    private var book = RuleBook(rules: [], epoch: 0, previous: nil)
    private var windows = [LimitWindow](repeating: LimitWindow(), count: ProviderRole.allCases.count)
    private var quotaUse: FCMQuotaUse?
    private var nextMessageNumber: UInt64 = 0
    private let runNumber = UInt64.random(in: .min ... .max)

    private var isTrivial = false

    /// Nothing is checked, scripted or recorded: the caller may accept without asking.
    var acceptsEverything: Bool {
        refresh()
        return isTrivial
    }

    init(
        options: SimulatorOptions,
        control: SimulatorControl,
        store: CredentialStore,
        devices: DeviceRegistry,
        tokenURI: String
    ) {
        self.options = options
        self.control = control
        self.store = store
        self.devices = devices
        clock = options.clock
        verifier = ProviderTokenVerifier(options: options.apns, clock: options.clock)
        oauth = OAuthService(options: options.oauth, tokenURI: tokenURI)
        fcm = FCMService(options: options.fcm)
        refresh()
    }

    /// Takes over changes of the script and of the credentials. Two atomic loads when there are none.
    func refresh() {
        if control.currentVersion != scriptVersion {
            scriptVersion = control.currentVersion
            let current = control.scriptAndEpoch
            if current.script.fcmQuota != script.fcmQuota { quotaUse = current.script.fcmQuota.map(FCMQuotaUse.init) }
            script = current.script
            book = RuleBook(rules: script.rules, epoch: current.epoch, previous: book)
            isTrivial =
                options.depth == .quick && options.ledger == .totals && !options.honoursTokenWords
                && options.listener == nil && options.ledgerFile == nil && script.isAccepting
        }
        if store.currentVersion != credentialsVersion {
            credentialsVersion = store.currentVersion
            let book = store.book
            verifier.replaceKeys(book.apnsKeys)
            oauth.accounts = book.accounts
            accessTokens.projects = Set(book.accounts.map(\.account.projectID))
            if book.accessTokenEpoch != accessTokenEpoch { accessTokens.expireAll() }
            accessTokenEpoch = book.accessTokenEpoch
        }
    }

    /// The decision on a complete request, and its entry for the ledger.
    ///
    /// With an `override` the request is only described: no check, no turn of a rule.
    func judge(
        _ slot: StreamSlot,
        origin: inout Origin,
        override: Decision? = nil
    ) -> (decision: Decision, record: RequestRecord) {
        refresh()
        var record = RequestRecord()
        record.receivedAt = clock.unixMicroseconds
        record.role = origin.role
        record.connection = origin.connection
        record.stream = slot.streamID
        record.payloadBytes = slot.payloadBytes
        if options.keepsBodies {
            record.body = origin.role == .oauth ? OAuthService.withoutSecret(slot.body) : slot.body
        }
        if options.keepsHeaders { record.headers = slot.headers }
        var decision =
            switch origin.role {
            case .apnsProduction, .apnsSandbox: judgeAPNs(slot, &origin, &record, override)
            case .fcm: judgeFCM(slot, origin, &record, override)
            case .oauth: override ?? judgeOAuth(slot, origin, &record)
            }
        decision.delayMilliseconds += script.latencyMilliseconds
        record.status = decision.status
        record.reason = decision.reason
        return (decision, record)
    }

    // MARK: APNs

    private func judgeAPNs(
        _ slot: StreamSlot,
        _ origin: inout Origin,
        _ record: inout RequestRecord,
        _ override: Decision?
    ) -> Decision {
        let request = APNsRequest(slot: slot)
        let bearerHash = slot.bytes(.authorization).map { hash64($0) } ?? 0
        record.token = String(decoding: request.token, as: UTF8.self)
        if options.ledger == .records || options.listener != nil || options.ledgerFile != nil {
            record.topic = slot.text(.topic)
            record.pushType = slot.text(.pushType)
            record.priority = slot.text(.priority)
            record.expiration = slot.text(.expiration)
            record.collapseID = slot.text(.collapseID)
            record.messageID = slot.text(.messageID)
            record.bearerHash = bearerHash == 0 ? nil : hexText(bearerHash)
        }
        if let decided = override ?? limitAnswer(origin.role) { return decided }
        if options.depth == .checked {
            let role = origin.role
            for check in APNsCheck.order {
                let reason =
                    check == .authentication
                    ? verifier.fault(bearer: slot.bytes(.authorization), role: role, state: &origin.trust)
                    : check.fault(request, options.apns)
                if let reason { return APNsReasons.decision(reason) }
            }
        }
        let subject = RuleBook.Subject(
            role: origin.role,
            token: record.token,
            topic: slot.bytes(.topic),
            connection: origin.connection,
            bearerHash: bearerHash
        )
        if let script = turn(subject, word: { TokenWords.script(apns: request.token, role: origin.role) }) {
            return carryOut(script)
        }
        guard !devices.isEmpty else { return .accept }
        let topic = slot.bytes(.topic) ?? []
        let app = topic.dropLast(PushTypeRule.suffix(of: topic)?.utf8CodeUnitCount ?? 0)
        let text = String(decoding: app, as: UTF8.self)
        return devices.refusal(of: record.token, role: origin.role, app: text).map { decision(for: $0) } ?? .accept
    }

    // MARK: FCM

    private func judgeFCM(
        _ slot: StreamSlot,
        _ origin: Origin,
        _ record: inout RequestRecord,
        _ override: Decision?
    ) -> Decision {
        var findings = FCMService.Findings()
        let needsBody = options.depth == .checked || options.ledger != .totals || options.honoursTokenWords
        defer {
            record.token = findings.token
            record.priority = findings.priority
            record.expiration = findings.expiration
            record.collapseID = findings.collapseID
            record.validateOnly = findings.isValidateOnly
            record.isNotification = findings.isNotification
        }
        let bearerHash = slot.bytes(.authorization).map { hash64($0) } ?? 0
        record.bearerHash = bearerHash == 0 ? nil : hexText(bearerHash)
        if let decided = override ?? limitAnswer(.fcm) ?? projectQuotaAnswer(slot) {
            FCMService.read(slot.body, into: &findings)
            return decided
        }
        if options.depth == .checked {
            let now = clock.unixSeconds
            if let fault = fcm.fault(slot: slot, tokens: accessTokens, now: now, findings: &findings) { return fault }
        } else if needsBody {
            FCMService.read(slot.body, into: &findings)
        }
        let subject = RuleBook.Subject(
            role: .fcm,
            token: findings.token,
            topic: nil,
            connection: origin.connection,
            bearerHash: bearerHash
        )
        var decision = Decision.accept
        if let script = turn(subject, word: { TokenWords.script(fcm: findings.token) }) {
            decision = carryOut(script)
        } else if !devices.isEmpty,
            let refusal = devices.refusal(of: findings.token, role: .fcm, app: findings.projectID)
        {
            decision = self.decision(for: refusal)
        }
        guard decision.status == 200, decision.reason == nil else { return decision }
        if findings.isDevice, !findings.isValidateOnly,
            quotaUse?.takeMessage(to: findings.token, now: clock.unixMilliseconds) == false
        {
            return FCMAnswers.fault(.deviceQuota)
        }
        let project = findings.projectID.isEmpty ? options.fcm.projectID : findings.projectID
        let name = "projects/\(project)/messages/" + (findings.isValidateOnly ? "fake_message_id" : makeMessageID())
        record.messageID = name
        let answer = FCMAnswers.accepted(name: name)
        decision.contentType = answer.contentType
        decision.body = answer.body
        return decision
    }

    private func makeMessageID() -> String {
        nextMessageNumber &+= 1
        return "0:\(clock.unixMilliseconds)000%\(hexText(runNumber &+ nextMessageNumber &* 0x9E37_79B9_7F4A_7C15))"
    }

    // MARK: OAuth

    private func judgeOAuth(_ slot: StreamSlot, _ origin: Origin, _ record: inout RequestRecord) -> Decision {
        let subject = RuleBook.Subject(
            role: .oauth,
            token: "",
            topic: nil,
            connection: origin.connection,
            bearerHash: 0
        )
        if let limited = limitAnswer(.oauth) { return limited }
        if let script = book.isEmpty ? nil : book.script(for: subject), script.behaviour != .accept {
            return carryOut(script)
        }
        return oauth.answer(slot: slot, fault: script.oauth, clock: clock, tokens: &accessTokens)
    }

    // MARK: Scripts

    /// What a rule or, if none has its turn, a word in the token asks for.
    private func turn(_ subject: RuleBook.Subject, word: () -> TokenWords.Script?) -> TokenWords.Script? {
        if !book.isEmpty, let script = book.script(for: subject) { return script }
        guard options.honoursTokenWords, let script = word() else { return nil }
        return book.takeTurn(word: script, for: subject) ? script : nil
    }

    private func carryOut(_ script: TokenWords.Script) -> Decision {
        var decision = decision(for: script.behaviour)
        decision.delayMilliseconds = script.delayMilliseconds
        decision.retryAfter = script.retryAfter.map { retryAfterText($0, now: clock.unixSeconds) }
        return decision
    }

    private func decision(for behaviour: Behaviour) -> Decision {
        switch behaviour {
        case .accept: .accept
        case .reject(let reason, let status, let timestamp):
            APNsReasons.decision(reason, status: status, timestamp: milliseconds(timestamp))
        case .fault(let fault): FCMAnswers.fault(fault)
        case .body(let status, let body): AnswerBodies.decision(status: status, body, now: clock.unixMilliseconds)
        case .answerThenReset, .goAway, .settings, .initialWindow: Decision(behaviour: behaviour)
        case .silence: .unanswered(behaviour, reason: "silence")
        case .refuseStream: .unanswered(behaviour, reason: "refused")
        case .resetStream(let code): .unanswered(behaviour, reason: "reset:\(code)")
        case .drop(let cut): .unanswered(behaviour, reason: "drop:\(cut.rawValue)")
        case .stopReading: .unanswered(behaviour, reason: "stop-reading")
        case .stopAnswering: .unanswered(behaviour, reason: "stop-answering")
        }
    }

    private func milliseconds(_ timestamp: RejectionTimestamp) -> Int64? {
        switch timestamp {
        case .none: nil
        case .now: clock.unixMilliseconds
        case .secondsAgo(let seconds): clock.unixMilliseconds - seconds * 1000
        case .at(let milliseconds): milliseconds
        }
    }

    /// The answer to a request over the quota of its project, or nil. What is refused later counts too.
    private func projectQuotaAnswer(_ slot: StreamSlot) -> Decision? {
        guard quotaUse != nil, let project = FCMService.project(ofPath: slot.text(.path) ?? "") else { return nil }
        let isWithin = quotaUse?.takeRequest(of: project, now: clock.unixMilliseconds) ?? true
        return isWithin ? nil : FCMAnswers.fault(.quota)
    }

    /// The answer to a request over the rate limit of its role, or nil.
    private func limitAnswer(_ role: ProviderRole) -> Decision? {
        guard let limit = script.rateLimits[role] else { return nil }
        let now = monotonicMilliseconds()
        var window = windows[role.index]
        defer { windows[role.index] = window }
        if now - window.startedAt >= Int64(limit.windowMilliseconds) {
            window.startedAt = now
            window.count = 0
        }
        window.count += 1
        guard window.count > limit.requests else { return nil }
        window.refused += 1
        if let most = limit.dropConnectionAfter, window.refused > most {
            return .unanswered(.drop(.reset), reason: "drop:limit")
        }
        var decision = role.isAPNs ? APNsReasons.decision("TooManyRequests") : FCMAnswers.fault(.quota)
        decision.retryAfter = limit.retryAfter.map { retryAfterText($0, now: clock.unixSeconds) }
        return decision
    }
}

extension SimulatorControl.Script {
    /// True if every request is accepted at once.
    var isAccepting: Bool {
        rules.isEmpty && latencyMilliseconds == 0 && rateLimits.isEmpty && fcmQuota == nil && oauth == nil
    }
}
