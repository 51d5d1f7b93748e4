internal import PushCore

// The requests of a pool: those that wait, and what becomes of all of them.
extension Pool {
    // How often a request may come back surely unprocessed before it is given up: enough for a rolling restart of
    // a provider's whole front (a guess).
    private static let roundLimit: UInt8 = 10

    var hasQueued: Bool { queuedCount > 0 }

    func submit(_ submit: Submit) {
        let submission = Submission(submit, now: loop.now, expiresAt: loop.loopTime(of: submit.batch.deadline))
        guard submission.unsettled > 0 else { return }
        let slot: Int32
        if let free = freeSubmissions.popLast() {
            slot = free
            submissions[Int(slot)] = submission
        } else {
            slot = Int32(submissions.count)
            submissions.append(submission)
        }
        if isClosing { return settleWaiting(slot, .unanswered(.poolClosed)) }
        queue.append(slot)
        queuedCount += submission.waiting
        queueDeadline = min(queueDeadline, giveUpTime(of: submission))
        isDirty = true
    }

    func submission(of reference: RequestReference) -> Submission? {
        submissions[Int(reference.submission)]
    }

    // The next request to frame: first what came back, then in order of submission. Settles what is too late.
    func next() -> RequestReference? {
        while let reference = returned.popFirst() {
            guard let submission = submission(of: reference) else { continue }
            queuedCount -= 1
            submission.waiting -= 1
            if isTooLate(submission) {
                settle(reference, .expired, mayHaveBeenProcessed: false)
                continue
            }
            return reference
        }
        while let slot = queue.first {
            guard let submission = submissions[Int(slot)] else {
                _ = queue.popFirst()
                continue
            }
            if isTooLate(submission) {
                _ = queue.popFirst()
                settleWaiting(slot, .expired)
                continue
            }
            guard let index = submission.cursor.next() else {
                _ = queue.popFirst()
                continue
            }
            if submission.cursor.remaining == 0 { _ = queue.popFirst() }
            queuedCount -= 1
            submission.waiting -= 1
            return RequestReference(submission: slot, index: index, rounds: 0)
        }
        return nil
    }

    private func isTooLate(_ submission: Submission) -> Bool {
        guard let deadline = submission.batch.deadline else { return false }
        return loop.wallNow >= deadline
    }

    // Rounded up, so that a request that is still sent never says 0.
    func secondsLeft(of submission: Submission) -> UInt32 {
        guard let deadline = submission.batch.deadline else { return 0 }
        let microseconds = max(1, (deadline - loop.wallNow).wholeMicroseconds)
        return UInt32(min((microseconds + 999_999) / 1_000_000, Int64(UInt32.max)))
    }

    // MARK: Back to the queue

    // Taken but not sent: it goes back as if nothing had happened.
    func putBack(_ reference: RequestReference) {
        guard let submission = submission(of: reference) else { return }
        returned.append(reference)
        queuedCount += 1
        submission.waiting += 1
        queueDeadline = min(queueDeadline, giveUpTime(of: submission))
        isDirty = true
    }

    // Surely not processed: to the front of the queue, for another connection, and no attempt is used up.
    func sendAgain(_ reference: RequestReference) {
        guard let submission = submission(of: reference) else { return }
        if submission.isCancelled {
            return settle(reference, .cancelled, mayHaveBeenProcessed: false)
        }
        if isClosing {
            return settle(reference, .unanswered(.poolClosed), mayHaveBeenProcessed: false)
        }
        if reference.rounds == Pool.roundLimit {
            return settle(reference, .unanswered(.refused), mayHaveBeenProcessed: false)
        }
        noteSentAgain()
        var again = reference
        again.rounds += 1
        putBack(again)
    }

    // MARK: Settling

    func settle(_ reference: RequestReference, _ kind: Completion.Kind, mayHaveBeenProcessed: Bool) {
        guard let submission = submission(of: reference) else { return }
        loop.completions.add(
            submission,
            index: reference.index,
            kind: kind,
            mayHaveBeenProcessed: mayHaveBeenProcessed
        )
        submission.unsettled -= 1
        if submission.isOver { free(reference.submission) }
    }

    func settleAnswer(_ reference: RequestReference, from slot: borrowing StreamSlot) {
        guard let submission = submission(of: reference) else { return }
        loop.completions.addAnswer(submission, index: reference.index, from: slot)
        submission.unsettled -= 1
        // Its stream is still pinned: `unpin` frees it.
    }

    func unpin(_ reference: RequestReference) {
        guard let submission = submission(of: reference) else { return }
        submission.pins -= 1
        if submission.isOver { free(reference.submission) }
    }

    private func free(_ slot: Int32) {
        guard submissions[Int(slot)] != nil else { return }
        submissions[Int(slot)] = nil
        freeSubmissions.append(slot)
    }

    // Settles all requests of a submission that wait.
    private func settleWaiting(_ slot: Int32, _ kind: Completion.Kind) {
        guard let submission = submissions[Int(slot)], submission.waiting > 0 else { return }
        for reference in returned.removeAll() {
            guard reference.submission == slot else {
                returned.append(reference)
                continue
            }
            dequeue(submission)
            settle(reference, kind, mayHaveBeenProcessed: false)
        }
        while let index = submission.cursor.next() {
            dequeue(submission)
            let reference = RequestReference(submission: slot, index: index, rounds: 0)
            settle(reference, kind, mayHaveBeenProcessed: false)
        }
    }

    private func dequeue(_ submission: Submission) {
        submission.waiting -= 1
        queuedCount -= 1
    }

    func settleAllWaiting(_ kind: Completion.Kind) {
        for slot in submissions.indices { settleWaiting(Int32(slot), kind) }
    }

    func cancel(tag: Int) {
        for slot in submissions.indices {
            guard let submission = submissions[slot], submission.tag == tag, submission.single == nil else { continue }
            submission.isCancelled = true
            settleWaiting(Int32(slot), .cancelled)
        }
    }

    // MARK: Waiting too long

    // When a submission's waiting requests are to be given up: its deadline, or the end of patience with a pool that
    // has no usable connection.
    private func giveUpTime(of submission: Submission) -> LoopTime {
        min(submission.expiresAt, patienceEnds(for: submission))
    }

    private func patienceEnds(for submission: Submission) -> LoopTime {
        guard let unusableSince else { return .never }
        return max(unusableSince, submission.queuedAt) + configuration.connectPatience
    }

    func giveUpWaiting() {
        queueDeadline = .never
        for slot in submissions.indices {
            guard let submission = submissions[slot], submission.waiting > 0 else { continue }
            if submission.expiresAt <= loop.now {
                settleWaiting(Int32(slot), .expired)
            } else if patienceEnds(for: submission) <= loop.now {
                settleWaiting(Int32(slot), .unanswered(lastConnectCause))
            } else {
                queueDeadline = min(queueDeadline, giveUpTime(of: submission))
            }
        }
    }

    func wakeForQueue() {
        if queueDeadline <= loop.now { giveUpWaiting() }
        if hasQueued { wake(at: queueDeadline) }
    }
}
