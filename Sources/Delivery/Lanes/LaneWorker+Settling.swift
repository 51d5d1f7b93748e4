import HTTP2
import PushCore
import Telemetry

// Settling: what came back from the client becomes outcomes, retries and what follows for credential and device.
extension LaneWorker {
    /// Settles what comes back while a flush is out: a flush waits for the database for longer than its rows take to come.
    func settle() async {
        await withDiscardingTaskGroup { group in
            while true {
                drain()
                let now = ContinuousClock.now
                sweep(now: now)
                if !isFlushing, isFlushDue(now: now) {
                    isFlushing = true
                    group.addTask { await self.flush() }
                }
                followDeadTokensIfDue(now: now)
                if await stopIfDone() {
                    // A flush that is still out then would hold up the stop until its own deadline.
                    group.cancelAll()
                    return
                }
                await inbox.signal.wait(until: .now + (batches.isEmpty ? .milliseconds(250) : settings.tick))
            }
        }
    }

    /// Takes what has come back and settles it. No allocation per message beyond the growth of the result arrays.
    func drain() {
        inbox.take(into: &chunks)
        let taken = chunks
        for chunk in taken {
            let bytes = chunk.bytes.span
            var batch: BatchInHand?
            var accepted = 0
            for completion in chunk.completions {
                if batch?.number != completion.tag {
                    if let batch { finishRun(batch, accepted: accepted) }
                    batch = batches[completion.tag]
                    accepted = 0
                }
                guard let batch else { continue }
                if accepted > 0, completion.status != 200 {
                    // What was accepted counts before what follows from a refusal.
                    noteAccepted(accepted, in: batch)
                    accepted = 0
                }
                if settle(completion, in: batch, bytes) { accepted += 1 }
            }
            if let batch { finishRun(batch, accepted: accepted) }
        }
    }

    private func noteAccepted(_ count: Int, in batch: BatchInHand) {
        guard count > 0, let version = batch.dispatch?.credential.version else { return }
        breakers[version, default: DeadTokenBreaker()].accepted(count)
        paces[version, default: SendingPace()].accepted(count, now: .now)
    }

    private func finishRun(_ batch: BatchInHand, accepted: Int) {
        noteAccepted(accepted, in: batch)
        if batch.outstanding == 0 || batch.wantsWindow { advance(batch) }
    }

    /// Settles one completion; true if the message was accepted.
    private func settle(_ completion: Completion, in batch: BatchInHand, _ bytes: Span<UInt8>) -> Bool {
        guard let dispatch = batch.dispatch else { return false }
        batch.outstanding -= 1
        let index = Int(dispatch.recipientOf[completion.index])
        switch completion.kind {
        case .answered where completion.status == 200:
            accept(completion, in: batch, index, bytes)
            if !gates.isEmpty { credentialAccepted(batch, request: UInt32(completion.index)) }
            return true
        case .answered:
            let verdict = interpret(completion, bytes)
            followAnswer(verdict, completion, in: batch, index)
        case .expired:
            if index < batch.row.sentTo {
                recordInDoubt(batch, index)
            } else {
                record(batch, index, .expired, status: 0, reason: .none)
            }
            loseProbe(of: batch, request: UInt32(completion.index))
        case .cancelled:
            batch.putBack(UInt32(completion.index), notBefore: .now)
            loseProbe(of: batch, request: UInt32(completion.index))
        case .unanswered(let cause):
            let verdict = Verdict(unanswered: cause, mayHaveBeenProcessed: completion.mayHaveBeenProcessed)
            if verdict.outcome == .unanswered(.timedOut) {
                raise(.silence, reason: cause.reason, status: 0, of: dispatch.credential)
            }
            loseProbe(of: batch, request: UInt32(completion.index))
            follow(verdict, reason: cause.reason, completion, in: batch, index)
        }
        return false

        func interpret(_ completion: Completion, _ bytes: Span<UInt8>) -> Verdict {
            let body = bytes.extracting(completion.bodyRange)
            let retryAfter = completion.fieldRange(AnswerField.retryAfter.rawValue).flatMap {
                RetryAfter.parse(bytes.extracting($0), now: WallClock.now().secondsSinceEpoch)
            }
            switch dispatch.credential.account {
            case .apns:
                return APNsResponse.interpret(
                    status: completion.status,
                    body: body,
                    hasOwnTopic: dispatch.hasOwnTopic,
                    retryAfter: retryAfter
                )
            case .fcm:
                return FCMResponse.interpret(
                    status: completion.status,
                    body: body,
                    retryAfter: retryAfter,
                    hasOwnTarget: dispatch.hasOwnTopic
                )
            }
        }
    }

    private func accept(_ completion: Completion, in batch: BatchInHand, _ index: Int, _ bytes: Span<UInt8>) {
        guard batch.markDone(index) else { return }
        unflushedCount += 1
        let device = batch.device(of: index)
        var id: Range<Int>?
        var uniqueID: Range<Int>?
        if case .fcm = batch.dispatch?.credential.account {
            let body = completion.bodyRange
            id = FCMResponse.nameRange(in: bytes.extracting(body)).map {
                $0.lowerBound + body.lowerBound..<$0.upperBound + body.lowerBound
            }
        } else {
            // Ours follows from job and device and is not stored.
            let expected = MessageID.make(job: batch.row.job, device: DeviceID(device))
            id = completion.fieldRange(AnswerField.apnsID.rawValue).flatMap {
                expected.isSpelt(by: bytes.extracting($0)) ? nil : $0
            }
            uniqueID = completion.fieldRange(AnswerField.apnsUniqueID.rawValue)
        }
        batch.results.appendAccepted(device: device, status: completion.status, id: id, uniqueID: uniqueID, in: bytes)
        logSettled(batch, index, .accepted, status: completion.status, reason: .none)
    }

    private func followAnswer(_ verdict: Verdict, _ completion: Completion, in batch: BatchInHand, _ index: Int) {
        guard let credential = batch.dispatch?.credential else { return }
        let request = UInt32(completion.index)
        let reason: String
        switch verdict.outcome {
        case .accepted: reason = ""
        case .rejected(let text), .throttled(let text, _): reason = text.text
        case .unanswered(let cause): reason = cause.rawValue
        }
        if verdict.replacesConnection { pools.renewConnections(of: credential) }
        if let alert = verdict.alert { raise(alert, reason: reason, status: completion.status, of: credential) }
        switch verdict.disposition {
        case .refreshCredential, .credentialRefused:
            guard batch.refused[request] == nil || !(gates[credential.version]?.isOpen ?? true) else {
                // Others were accepted since it was refused first: it is the message that is refused.
                record(batch, index, .rejected, status: completion.status, reason: reasons.index(of: reason))
                return
            }
            let isExpired = verdict.disposition == .refreshCredential
            credentialRefused(
                batch,
                request: request,
                status: completion.status,
                reason: reason,
                isExpired: isExpired
            )
        case .settle, .payloadFault, .deadToken, .retry, .retryNow, .doubtful:
            if !gates.isEmpty {
                if verdict.disposition.credentialVerdict == .accepted {
                    credentialAccepted(batch, request: request)
                } else {
                    loseProbe(of: batch, request: request)
                }
            }
            follow(verdict, reason: reason, completion, in: batch, index)
        }
        // After the message itself: one that was answered has had its attempt, whatever its answer means for the others.
        if case .retry(let advice) = verdict.disposition, completion.status == 429 || completion.status >= 500 {
            heed(advice, status: completion.status, reason: reason, of: credential)
        }
    }

    private func follow(
        _ verdict: Verdict,
        reason text: String,
        _ completion: Completion,
        in batch: BatchInHand,
        _ index: Int
    ) {
        let reason = reasons.index(of: text)
        switch verdict.disposition {
        case .settle, .payloadFault:
            if verdict.disposition == .payloadFault(suspectsToken: true) {
                examineToken(reason: text, in: batch, index)
            }
            record(
                batch,
                index,
                verdict.outcome == .accepted ? .accepted : .rejected,
                status: completion.status,
                reason: reason
            )
        case .deadToken(let word):
            noteDead(word, reason: text, in: batch, index)
            record(batch, index, .rejected, status: completion.status, reason: reason)
        case .retry(let advice):
            retry(batch, index, advice, status: completion.status, reason: reason)
        case .retryNow:
            batch.putBack(UInt32(completion.index), notBefore: .now + .milliseconds(100))
        case .doubtful:
            switch batch.doubt {
            case .unknown: record(batch, index, .unknown, status: 0, reason: reason)
            case .resend:
                let advice = adviceAfterDoubt(verdict, of: batch)
                retry(batch, index, advice, status: 0, reason: reason, isDoubtful: true)
            }
        case .refreshCredential, .credentialRefused:
            preconditionFailure("a refused credential is looked into where its answer is read")
        }
    }

    private func adviceAfterDoubt(_ verdict: Verdict, of batch: BatchInHand) -> RetryAdvice {
        guard verdict.outcome == .unanswered(.timedOut), case .fcm = batch.dispatch?.credential.account else {
            return RetryAdvice(.provider)
        }
        return RetryAdvice(.provider, minimum: FCMResponse.timeOutPause)
    }

    private func retry(
        _ batch: BatchInHand,
        _ index: Int,
        _ advice: RetryAdvice,
        status: Int,
        reason: ReasonTable.Index,
        isDoubtful: Bool = false
    ) {
        // What is left of a job that was cancelled or paused ends or waits as a whole, but for what this attempt may have
        // sent.
        if let withdrawal = batch.lifecycle.withdrawal, withdrawal == .cancelled || withdrawal == .held {
            guard isDoubtful else { return }
            if withdrawal == .cancelled { return record(batch, index, .unknown, status: status, reason: reason) }
        }
        // What a worker or an attempt before this one may have sent stays in doubt, whatever becomes of this attempt.
        let wasDoubtful = index < batch.row.sentTo
        let timeLeft = batch.deadline - WallClock.now()
        let decision = retryPolicy.decide(
            advice,
            attempt: batch.row.attempt,
            timeLeft: timeLeft,
            using: &random
        )
        switch decision {
        case .retry(let wait):
            guard batch.markDone(index) else { return }
            batch.delays.add(
                index,
                size: batch.row.size,
                due: .after(wait),
                timeLeft: timeLeft,
                attempt: batch.row.attempt + 1,
                reason: reason,
                sentTo: isDoubtful || wasDoubtful ? batch.row.size : 0
            )
        case .expired, .exhausted:
            if isDoubtful {
                record(batch, index, .unknown, status: status, reason: reason)
            } else if wasDoubtful {
                recordInDoubt(batch, index)
            } else {
                record(batch, index, decision == .expired ? .expired : .rejected, status: status, reason: reason)
            }
        }
    }

    /// What time alone brings: waits that are over, leases that were not renewed, probes that are wanted.
    private func sweep(now: ContinuousClock.Instant) {
        for batch in batches.values {
            if now >= batch.safeUntil {
                if batch.outstanding > 0, !batch.isTakenBack {
                    batch.isTakenBack = true
                    client.cancel(tag: batch.number)
                }
            } else if batch.isTakenBack || !batch.waiting.isEmpty || batch.outstanding == 0 || batch.hasUnsent {
                batch.isTakenBack = false
                advance(batch)
            }
        }
        if !breakers.isEmpty { judgeDeadTokens(now: now) }
        for version in gates.versions where gates[version]?.wantsProbe ?? false {
            let user = batches.values.first { $0.dispatch?.credential.version == version }
            if let credential = user?.dispatch?.credential { sendProbe(of: credential) } else { gates[version] = nil }
        }
    }

    // MARK: Stopping

    /// While stopping: withdraws what is in hand, hurries when the time is over. True when nothing is left to do.
    private func stopIfDone() async -> Bool {
        guard let stopBy else { return false }
        for batch in Array(batches.values) where batch.lifecycle.withdrawal != .released {
            // That we stop is no sign of poison in the batch.
            batch.hasProgress = true
            withdraw(batch, .released)
        }
        let now = ContinuousClock.now
        if now >= stopBy, !isClientStopped {
            isClientStopped = true
            await client.stop(within: .zero)
            drain()
        }
        if isTakingIn { return false }
        if batches.isEmpty { judgeDeadTokens(now: now, isLast: true) }
        let isWritten = batches.isEmpty && pendingPlan == nil && !isFlushing
        if isWritten, await followLastDeadTokens(now: now) { return true }
        guard now > stopBy + Self.flushPatience else { return false }
        if isWritten {
            logger.warning("Stopped before dead tokens were followed: their devices are disabled after the next push")
        } else {
            logger.error(
                "Stopped before everything was written: batches come back when their leases end, and may be sent again",
                [.count: .number(batches.count)]
            )
        }
        return true
    }

    /// How long a stop waits for the database after its time is over.
    private static let flushPatience: Duration = .seconds(5)
}

extension UnansweredCause {
    /// The reason that stands in result rows and delayed batches.
    var reason: String {
        switch self {
        case .timedOut: "timed_out"
        case .connectionLost: "connection_lost"
        case .streamReset: "stream_reset"
        case .refused: "stream_refused"
        case .noStreamsAllowed: "no_streams_allowed"
        case .nameNotResolved: "name_not_resolved"
        case .connectFailed: "connect_failed"
        case .tlsFailed: "tls_failed"
        case .poolClosed: "stopped"
        }
    }
}

extension UUIDValue {
    /// Whether text is this value's canonical form, in either case.
    package func isSpelt(by text: Span<UInt8>) -> Bool {
        guard text.count == 36 else { return false }
        var digit = 0
        for position in text.indices {
            if position == 8 || position == 13 || position == 18 || position == 23 {
                guard text[position] == UInt8(ascii: "-") else { return false }
                continue
            }
            let word = digit < 16 ? high : low
            let expected = UInt8(truncatingIfNeeded: word >> UInt64(60 - 4 * (digit & 15)) & 15)
            guard Hex.value(ofDigit: text[position]) == expected else { return false }
            digit += 1
        }
        return true
    }
}
