import HTTP2
import PushCore

// What happens to a batch in hand: submitted, withdrawn, settled, ended.
extension LaneWorker {
    /// Submits what may go out, and ends the batch if nothing more will come of it.
    func advance(_ batch: BatchInHand) {
        guard !batch.lifecycle.isOver else { return }
        submit(batch)
        if batch.outstanding == 0 {
            switch batch.lifecycle.nothingIsOut(remaining: batch.remaining) {
            case .endRest(let reason):
                endRest(batch, reason)
                unflushedCount += 1
            case .finish:
                unflushedCount += 1
            case .none, .takeBack, .drop:
                break
            }
        }
        if batch.wantsWindow { controlWanted = true }
    }

    private func submit(_ batch: BatchInHand) {
        let now = ContinuousClock.now
        guard let dispatch = batch.dispatch, batch.canSend(now: now), !isHeld(batch, by: dispatch.credential, now: now),
            gates[dispatch.credential.version]?.isOpen ?? true,
            let requests = takeRequests(of: batch, under: dispatch.credential, now: now)
        else { return }
        client.submit(dispatch.requests, tag: batch.number, requests: requests, to: dispatch.pool)
    }

    /// Stops a batch: what is not on the wire is taken back, what is on it is awaited.
    func withdraw(_ batch: BatchInHand, _ reason: BatchLifecycle.Withdrawal) {
        switch batch.lifecycle.withdraw(reason) {
        case .takeBack:
            if batch.outstanding > 0 { client.cancel(tag: batch.number) }
        case .drop:
            client.cancel(tag: batch.number)
            forget(batch)
            return
        case .none, .finish, .endRest:
            break
        }
        advance(batch)
    }

    /// Sets the rest of a batch aside for a while: shortly before its expiry it gets a last chance.
    ///
    /// - Parameter minimum: what of the wait is no guess: nothing can go out before, and what expires by then expires now.
    func delay(_ batch: BatchInHand, by wait: Duration, atLeast minimum: Duration = .zero, reason: String) {
        batch.restWait = max(wait, .seconds(1))
        batch.restMinimum = minimum
        batch.failureReason = reasons.index(of: reason)
        withdraw(batch, .delayed)
    }

    /// Gives every recipient without an outcome the same one; used where nothing of the batch is out.
    func settleRest(_ batch: BatchInHand, _ outcome: RecipientOutcome, reason: String) {
        recordRest(batch, outcome, reason: reasons.index(of: reason))
        advance(batch)
    }

    private func recordRest(_ batch: BatchInHand, _ outcome: RecipientOutcome, reason: ReasonTable.Index) {
        unflushedCount += batch.remaining
        let inDoubt = reasons.index(of: Self.inDoubt)
        let statuses = outcome == .rejected ? batch.refusedStatuses : [:]
        batch.finishRest { index in
            // What a worker before us may have sent is not sent again: nobody will find out any more.
            let isDoubtful = index < batch.row.sentTo
            batch.results.append(
                device: batch.device(of: index),
                outcome: isDoubtful ? .unknown : outcome,
                status: isDoubtful ? 0 : statuses[index] ?? 0,
                reason: isDoubtful ? inDoubt : reason
            )
        }
    }

    /// Ends a recipient that is not sent again, and may have been sent before this attempt.
    func recordInDoubt(_ batch: BatchInHand, _ index: Int) {
        record(batch, index, .unknown, status: 0, reason: reasons.index(of: Self.inDoubt))
    }

    /// The reason of an `unknown` that a lost worker left; `peal.settle_slices` has the same word for it.
    static let inDoubt = "in_doubt"

    private func endRest(_ batch: BatchInHand, _ reason: BatchLifecycle.Withdrawal) {
        switch reason {
        case .released, .lost:
            break
        case .cancelled:
            recordRest(batch, .cancelled, reason: .none)
        case .failed:
            recordRest(batch, .rejected, reason: batch.failureReason)
        case .held:
            setRestAside(batch, due: .held)
        case .delayed:
            let timeLeft = batch.deadline - WallClock.now()
            if let wait = Delay.wait(batch.restWait, atLeast: batch.restMinimum, timeLeft: timeLeft) {
                setRestAside(batch, due: .after(wait))
            } else {
                recordRest(batch, .expired, reason: batch.failureReason)
            }
        }
    }

    private func setRestAside(_ batch: BatchInHand, due: Delay.Due) {
        let timeLeft = batch.deadline - WallClock.now()
        batch.finishRest { index in
            batch.delays.add(
                index,
                size: batch.row.size,
                due: due,
                timeLeft: timeLeft,
                attempt: batch.row.attempt,
                reason: batch.failureReason,
                sentTo: batch.row.sentTo
            )
        }
    }

    /// Notes a recipient's final outcome.
    func record(
        _ batch: BatchInHand,
        _ index: Int,
        _ outcome: RecipientOutcome,
        status: Int,
        reason: ReasonTable.Index
    ) {
        guard batch.markDone(index) else { return }
        batch.results.append(device: batch.device(of: index), outcome: outcome, status: status, reason: reason)
        unflushedCount += 1
        logSettled(batch, index, outcome, status: status, reason: reason)
    }
}
