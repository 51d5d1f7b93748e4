import HTTP2
import PushCore
import Telemetry

// Questions about tokens: FCM is asked once more, with a minimal message that it does not deliver. Best effort, and apart
// from everything else: who gives no answer holds up no other credential, and nobody's dead tokens.
extension LaneWorker {
    /// How long a question may wait to be sent, and then for its answer; a stop waits no longer for all of them.
    private static let questionTimeLimit: Duration = .seconds(5)

    /// What FCM said to a minimal message.
    private enum Word {
        /// The token is refused.
        case refused(DeadToken.Certainty)
        /// Anything else. It promises nothing: not every dead token is found by `validate_only`.
        case other
        /// There was no answer, or it cannot be asked now.
        case none
    }

    // MARK: Faulty messages

    /// FCM refused a message in words that fit a bad token as well as a bad message: what it says to a minimal message
    /// tells which.
    ///
    /// Bounded: each job may have twenty tokens examined that turn out to be good, so a faulty payload costs twenty
    /// requests, not one for each recipient.
    func examineToken(reason: String, in batch: BatchInHand, _ index: Int) {
        guard let credential = batch.dispatch?.credential, case .fcm = credential.account,
            let left = jobs[batch.row.job]?.examinationsLeft, left > 0,
            let device = DeadDevice(batch, index, since: nil, reason: reason)
        else { return }
        jobs[batch.row.job]?.examinationsLeft = left - 1
        run(.examine(device, of: batch.row.job, credential))
    }

    func examine(_ device: DeadDevice, of job: JobID, under credential: ProviderCredential) async {
        guard case .refused(let certainty) = await wordOnToken(of: device, under: credential) else { return }
        noteDead(certainty, device, under: credential)
        jobs[job]?.examinationsLeft += 1
        inbox.signal.wake()
    }

    // MARK: Dead tokens

    /// Has FCM asked about tokens that it refused in words that are no promise, before their devices are disabled.
    func ask(about devices: [DeadDevice]) {
        for device in devices {
            if let credential = device.toConfirmWith { questions.add(device, of: credential.version) }
        }
        questionSignal.wake()
    }

    /// Asks until it is cancelled.
    func askAboutTokens() async {
        await withDiscardingTaskGroup { group in
            while !Task.isCancelled {
                while let device = questions.next() {
                    group.addTask { await self.confirm(device) }
                }
                await questionSignal.wait(until: .now + .seconds(60))
            }
        }
    }

    private func confirm(_ device: DeadDevice) async {
        guard let credential = device.toConfirmWith else { return }
        let word = await wordOnToken(of: device, under: credential)
        switch word {
        case .none: questions.unanswered(of: credential.version)
        case .other, .refused: questions.answered(of: credential.version)
        }
        if case .refused = word {
            var device = device
            device.toConfirmWith = nil
            deadDevices.append(device)
        }
        questionSignal.wake()
        inbox.signal.wake()
    }

    /// While stopping, with everything written: what is not answered soon is not waited for.
    func endQuestions(now: ContinuousClock.Instant) async {
        guard !questions.isEmpty, !isClientStopped else { return }
        let end = questionsEndAt ?? now + Self.questionTimeLimit
        questionsEndAt = end
        guard now >= end else { return }
        isClientStopped = true
        await client.stop(within: .zero)
    }

    private func wordOnToken(of device: DeadDevice, under credential: ProviderCredential) async -> Word {
        guard let bearer = bearers[credential.version], case .fcm(let project, _, _, _, _) = credential.account,
            holds.hold(of: credential.counted, now: .now) == nil
        else { return .none }
        do {
            let pool = try pools.pool(for: credential, bearer: bearer)
            let request = try CredentialProbe.validation(
                of: device.token,
                project: project,
                deadline: WallClock.now() + Self.questionTimeLimit,
                within: Self.questionTimeLimit
            )
            let response = try await client.send(request, to: pool)
            let verdict = FCMResponse.interpret(status: response.status, body: response.body.span)
            return switch verdict.disposition {
            case .deadToken(let word) where word.certainty != .unconfirmed: .refused(word.certainty)
            case .deadToken, .payloadFault: .refused(.orConfiguration)
            default: .other
            }
        } catch {
            logger.debug(
                "A token under suspicion could not be examined",
                [.credentialID: .describing(credential.id), .errorMessage: .describing(error)]
            )
            return .none
        }
    }
}
