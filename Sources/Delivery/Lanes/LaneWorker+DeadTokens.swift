import Postgres
import PushCore
import SQLText
import Telemetry

// Dead tokens: what providers say of tokens is gathered, judged over all processes, and followed.
extension LaneWorker {
    /// A provider called a token dead. What its word is worth is decided later, apart from the sending.
    func noteDead(_ word: DeadToken, reason: String, in batch: BatchInHand, _ index: Int) {
        let since = word.invalidSinceMilliseconds.map { WallClock.Instant(microsecondsSinceEpoch: $0 * 1_000) }
        guard let credential = batch.dispatch?.credential,
            let device = DeadDevice(batch, index, since: since, reason: reason)
        else { return }
        noteDead(word.certainty, device, under: credential)
    }

    func noteDead(_ certainty: DeadToken.Certainty, _ device: DeadDevice, under credential: ProviderCredential) {
        switch certainty {
        case .stated:
            deadDevices.append(device)
        case .whereProven, .orConfiguration, .unconfirmed:
            var device = device
            if certainty == .unconfirmed { device.toConfirmWith = credential }
            breakers[credential.version, default: DeadTokenBreaker()]
                .dead(device, isSuspect: certainty != .whereProven, now: .now)
        }
    }

    /// Looks whether what was said of tokens is enough to judge by.
    func judgeDeadTokens(now: ContinuousClock.Instant, isLast: Bool = false) {
        for version in breakers.versions {
            guard var breaker = breakers[version] else { continue }
            let users =
                breaker.hasCandidates ? batches.values.filter { $0.dispatch?.credential.version == version } : []
            let isIdle = users.allSatisfy { $0.outstanding == 0 && $0.waiting.isEmpty }
            switch breaker.judge(now: now, isIdle: isIdle, isLast: isLast) {
            case .none:
                continue
            case .report(let report):
                tokenReports.append((version, report))
            case .hold(let until, let report):
                logger.warning(
                    "Too many tokens are called dead at once: their channel is held and no device is disabled",
                    [
                        .credentialID: .describing(version.id), .count: .number(report.suspects.count),
                        .errorMessage: "Check the environment and the topic of the credential, or the project",
                    ]
                )
                tokenReports.append((version, report))
                let wait = until - now
                for batch in users { delay(batch, by: wait, atLeast: wait, reason: "too_many_dead_tokens") }
            }
            breakers[version] = breaker
        }
    }

    // MARK: Following

    /// How long the database may take for one credential or app.
    private static let followDeadline: Duration = .seconds(5)
    /// A look at what was said of tokens comes no sooner after the one before.
    private static let followInterval: Duration = .milliseconds(250)
    /// So much waits at most while the database or a lock holds it up. What is left out is said again by the next push.
    private static let reportLimit = 256
    private static let deviceLimit = 10_000
    /// How often a device that is locked is tried, with growing waits.
    private static let lockLimit = 10
    private static let lockBackoff = Backoff(first: .seconds(1), longest: .seconds(60))

    /// Leaves what was said of tokens to a task of its own: a device or verdict that somebody has locked holds up nobody.
    func followDeadTokensIfDue(now: ContinuousClock.Instant) {
        guard !isFollowingDeadTokens, !isStopping, now >= deadTokensDueAt,
            !tokenReports.isEmpty || deadDevices.contains(where: { $0.dueAt <= now })
        else { return }
        isFollowingDeadTokens = true
        run(.followDeadTokens)
    }

    /// While stopping, with everything written: true when nothing is left to follow.
    func followLastDeadTokens(now: ContinuousClock.Instant) async -> Bool {
        await endQuestions(now: now)
        guard !isFollowingDeadTokens else { return false }
        if !tokenReports.isEmpty || !deadDevices.isEmpty {
            guard deadTokenFailures == 0 || now >= deadTokensDueAt else { return false }
            isFollowingDeadTokens = true
            await followDeadTokens(isLast: true)
        }
        return tokenReports.isEmpty && deadDevices.isEmpty && questions.isEmpty
    }

    /// Has the reports judged, and disables the devices whose tokens are believed to be dead; one statement for each
    /// credential and app of which something was said.
    ///
    /// - Parameter isLast: we stop: every device is tried now, and once.
    func followDeadTokens(isLast: Bool = false) async {
        defer {
            isFollowingDeadTokens = false
            inbox.signal.wake()
        }
        do {
            let locked = try await judgeReports()
            try await disableDeadDevices(isLast: isLast)
            if let locked { throw locked }
            if deadTokenFailures > 0 { logger.info("Dead tokens are followed again") }
            deadTokenFailures = 0
            deadTokensDueAt = .now + Self.followInterval
        } catch {
            deadTokenFailures += 1
            deadTokensDueAt =
                .now + Self.lockBackoff.delay(afterFailures: deadTokenFailures, atLeast: .milliseconds(250))
            logger.log(
                deadTokenFailures == 1 ? .warning : .debug,
                "Dead tokens cannot be followed yet; sending goes on",
                [.errorMessage: .text("\(error)"), .count: .number(deadDevices.count)]
            )
        }
    }

    /// What cannot be judged is put back; a verdict that is locked keeps no other waiting, nor the devices of others.
    ///
    /// - Returns: what the database said of a verdict that is locked, or nil if none is.
    private func judgeReports() async throws -> PostgresError? {
        var left = tokenReports
        tokenReports = []
        var locked: PostgresError?
        defer { tokenReports = Array((left + tokenReports).prefix(Self.reportLimit)) }
        var place = 0
        while place < left.count {
            do {
                try await judge(left[place])
                left.remove(at: place)
            } catch let error as PostgresError where error.sqlState?.text == "55P03" {
                locked = error
                place += 1
            }
        }
        return locked
    }

    private func judge(_ item: TokenReport) async throws {
        let (version, report) = item
        let rows = try await notes.query(
            SQLText.deliveryJudgeTokens,
            [
                .credential(version.id), .timestamp(version.updatedAt), .int32(Int32(clamping: report.accepted)),
                .int64s(report.suspects.map(\.device)), .int32(Int32(clamping: report.others.count)),
            ],
            deadline: Self.followDeadline
        )
        let isProven = try rows.bool(0, 0)
        let isHigh = try rows.bool(0, 1)
        if isProven { believe(report.others) }
        if isProven, !isHigh, report.mayDisableSuspects { believe(report.suspects) }
        if try rows.bool(0, 2) {
            noteTurn(version.id, isHeld: isHigh || !isProven, isProven: isProven, suspected: try rows.int32(0, 3))
        }
    }

    private func believe(_ devices: [DeadDevice]) {
        deadDevices += devices.filter { $0.toConfirmWith == nil }
        ask(about: devices.filter { $0.toConfirmWith != nil })
    }

    private func noteTurn(_ credential: CredentialID, isHeld: Bool, isProven: Bool, suspected: Int32) {
        let metadata: LogMetadata = [.credentialID: .describing(credential), .count: .number(Int(suspected))]
        guard isHeld else {
            return logger.info("Dead tokens of a credential are believed again", metadata)
        }
        let advice: LogValue =
            isProven
            ? "Check that devices register with the right environment, topic and project"
            : "No push of it was accepted yet: check its environment, topic or project"
        logger.warning(
            "Tokens look dead, which may be a mistake in the settings: no device is disabled",
            metadata.merging([.errorMessage: advice])
        )
    }

    /// Disables devices by compare-and-set, app by app. What is locked is tried again later.
    private func disableDeadDevices(isLast: Bool) async throws {
        let now = ContinuousClock.now
        var due = Dictionary(grouping: deadDevices.filter { isLast || $0.dueAt <= now }, by: \.app)
        deadDevices.removeAll { isLast || $0.dueAt <= now }
        // Others may have been added meanwhile.
        defer { deadDevices = Array((deadDevices + due.values.joined()).prefix(Self.deviceLimit)) }
        for (app, devices) in due {
            let sorted = devices.sorted { $0.device < $1.device }
            let rows = try await notes.query(
                SQLText.deliveryDisableDevices,
                [
                    .app(app), .int64s(sorted.map(\.device)), .byteArrays(sorted.map(\.token)),
                    .timestamps(sorted.map { $0.since ?? WallClock.Instant(microsecondsSinceEpoch: .max) }),
                    .texts(sorted.map { String($0.reason.prefix(ReasonTable.lengthLimit)) }),
                ],
                deadline: Self.followDeadline
            )
            due[app] = nil
            var locked: Set<Int64> = []
            for row in rows.indices where try rows.bool(row, 1) { locked.insert(try rows.int64(row, 0)) }
            logger.debug(
                "Devices with dead tokens were disabled",
                [.appID: .describing(app), .count: .number(rows.count - locked.count)]
            )
            if !locked.isEmpty { tryAgain(sorted.filter { locked.contains($0.device) }, of: app, isLast: isLast) }
        }
    }

    private func tryAgain(_ devices: [DeadDevice], of app: AppID, isLast: Bool) {
        var given = 0
        for var device in devices {
            device.lockedCount += 1
            guard !isLast, device.lockedCount < Self.lockLimit else {
                given += 1
                continue
            }
            let wait = Self.lockBackoff.delay(afterFailures: device.lockedCount, atLeast: .milliseconds(250))
            device.dueAt = .now + wait
            deadDevices.append(device)
        }
        guard given > 0 else { return }
        logger.warning(
            "Devices with dead tokens are locked by somebody and stay as they are until the next push to them",
            [.appID: .describing(app), .count: .number(given)]
        )
    }
}
