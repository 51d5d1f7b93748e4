import HTTP2
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

    /// FCM refused a message in words that fit a bad token as well as a bad message: what it says to a minimal message
    /// that it does not deliver tells which.
    ///
    /// Best effort, and bounded: each job may have twenty tokens examined that turn out to be good, so a faulty payload
    /// costs twenty requests, not one for each recipient.
    func examineToken(reason: String, in batch: BatchInHand, _ index: Int) {
        guard let credential = batch.dispatch?.credential, case .fcm = credential.account,
            let left = jobs[batch.row.job]?.examinationsLeft, left > 0,
            let device = DeadDevice(batch, index, since: nil, reason: reason)
        else { return }
        jobs[batch.row.job]?.examinationsLeft = left - 1
        run(.examine(device, of: batch.row.job, credential))
    }

    /// Only a refusal says something: FCM does not promise that `validate_only` finds every dead token.
    func examine(_ device: DeadDevice, of job: JobID, under credential: ProviderCredential) async {
        guard let bearer = bearers[credential.version], case .fcm(let project, _, _, _, _) = credential.account,
            holds.hold(of: credential.counted, now: .now) == nil
        else { return }
        let verdict: Verdict
        do {
            let pool = try pools.pool(for: credential, bearer: bearer)
            let request = try CredentialProbe.validation(of: device.token, project: project)
            let response = try await client.send(request, to: pool)
            verdict = FCMResponse.interpret(status: response.status, body: response.body.span)
        } catch {
            return logger.debug(
                "A token under suspicion could not be examined",
                [.credentialID: .describing(credential.id), .errorMessage: .describing(error)]
            )
        }
        switch verdict.disposition {
        case .deadToken(let word): noteDead(word.certainty, device, under: credential)
        case .payloadFault: noteDead(.orConfiguration, device, under: credential)
        default: return
        }
        jobs[job]?.examinationsLeft += 1
        inbox.signal.wake()
    }

    private func noteDead(_ certainty: DeadToken.Certainty, _ device: DeadDevice, under credential: ProviderCredential)
    {
        switch certainty {
        case .stated:
            deadDevices.append(device)
        case .whereProven, .orConfiguration:
            breakers[credential.version, default: DeadTokenBreaker()]
                .dead(device, isSuspect: certainty == .orConfiguration, now: .now)
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
                for batch in users { delay(batch, by: until - now, reason: "too_many_dead_tokens") }
            }
            breakers[version] = breaker
        }
    }

    /// Has the reports judged, and disables the devices whose tokens are believed to be dead. After their results are
    /// written; one statement for each credential of which something was said.
    func followDeadTokens(on connection: PostgresConnection) async throws {
        while let (version, report) = tokenReports.first {
            let rows = try await connection.query(
                SQLText.deliveryJudgeTokens,
                [
                    .credential(version.id), .timestamp(version.updatedAt),
                    .int32(Int32(clamping: report.accepted)), .int64s(report.suspects.map(\.device)),
                    .int32(Int32(clamping: report.others.count)),
                ]
            )
            tokenReports.removeFirst()
            let isProven = try rows.bool(0, 0)
            let isHigh = try rows.bool(0, 1)
            if isProven { deadDevices += report.others }
            if isProven, !isHigh, report.mayDisableSuspects { deadDevices += report.suspects }
            if try rows.bool(0, 2) {
                noteTurn(version.id, isHeld: isHigh || !isProven, isProven: isProven, suspected: try rows.int32(0, 3))
            }
        }
        if !deadDevices.isEmpty { try await disableDeadDevices(on: connection) }
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

    /// Disables devices by compare-and-set, app by app.
    private func disableDeadDevices(on connection: PostgresConnection) async throws {
        for (app, devices) in Dictionary(grouping: deadDevices, by: \.app) {
            let sorted = devices.sorted { $0.device < $1.device }
            let disabled = try await connection.query(
                SQLText.deliveryDisableDevices,
                [
                    .app(app), .int64s(sorted.map(\.device)), .byteArrays(sorted.map(\.token)),
                    .timestamps(sorted.map { $0.since ?? WallClock.Instant(microsecondsSinceEpoch: .max) }),
                    .texts(sorted.map { String($0.reason.prefix(ReasonTable.lengthLimit)) }),
                ]
            )
            deadDevices.removeAll { $0.app == app }
            logger.debug(
                "Devices with dead tokens were disabled",
                [.appID: .describing(app), .count: .number(disabled.count)]
            )
        }
    }
}
