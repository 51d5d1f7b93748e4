internal import PushCore

// The requests of a pool: those that wait, and what becomes of all of them.
extension Pool {
    // How often a request may come back surely unprocessed before it is given up. A peer that lowers its stream limit
    // with each rejection refuses the same request dozens of times though all goes well (measured: more than 10 times
    // with one rejection in ten); one that is refused as often as this at one round trip each will stay so (a guess).
    static let roundLimit: UInt8 = 100

    private var hasQueued: Bool { queuedCount > 0 }
    // Something waits for a connection that is not for trials.
    var hasUnsuspected: Bool { queuedCount > suspects.count + tried.count }

    func submit(_ submit: Submit) {
        let submission = Submission(submit, now: loop.now, expiresAt: loop.loopTime(of: submit.batch.deadline))
        guard submission.unsettled > 0 else { return }
        submissions.append(submission)
        queuedCount += submission.waiting
        if isClosing { return settleWaiting(submission, .unanswered(.poolClosed)) }
        queue.append(submission)
        queueDeadline = min(queueDeadline, giveUpTime(of: submission))
        isDirty = true
    }

    // The next request to frame: first what came back, then in order of submission. Settles what is too late.
    func next() -> RequestReference? {
        if let reference = popFirst(of: returned) { return reference }
        while let submission = queue.first {
            if isTooLate(submission) {
                _ = queue.popFirst()
                settleWaiting(submission, .expired)
                continue
            }
            guard let index = submission.cursor.next() else {
                _ = queue.popFirst()
                continue
            }
            if submission.cursor.remaining == 0 { _ = queue.popFirst() }
            dequeue(submission)
            return RequestReference(submission: submission, index: index)
        }
        return nil
    }

    func popFirst(of references: Ring<RequestReference>) -> RequestReference? {
        while let reference = references.popFirst() {
            dequeue(reference.submission)
            guard isTooLate(reference.submission) else { return reference }
            settle(reference, .expired, mayHaveBeenProcessed: false)
        }
        return nil
    }

    func isTooLate(_ submission: Submission) -> Bool {
        guard let deadline = submission.batch.deadline else { return false }
        return loop.wallNow >= deadline
    }

    // Rounded up, so that a request that is still sent never says 0.
    func secondsLeft(of submission: Submission) -> UInt32 {
        guard let deadline = submission.batch.deadline else { return 0 }
        let microseconds = max(1, deadline.microsecondsSinceEpoch - loop.wallNow.microsecondsSinceEpoch)
        return UInt32(min((microseconds - 1) / 1_000_000 + 1, Int64(UInt32.max)))
    }

    // MARK: Back to the queue

    // Taken but not sent: it goes back as if nothing had happened.
    func putBack(_ reference: RequestReference) {
        enqueue(reference, in: returned)
    }

    func enqueue(_ reference: RequestReference, in references: Ring<RequestReference>) {
        let submission = reference.submission
        references.append(reference)
        queuedCount += 1
        submission.waiting += 1
        queueDeadline = min(queueDeadline, giveUpTime(of: submission))
        isDirty = true
    }

    // Surely not processed: to the front of the queue, for another connection, and no attempt is used up.
    func sendAgain(_ reference: RequestReference, from connection: Connection) {
        if reference.submission.isCancelled {
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
        if connection.isEnding { putBack(again, fromEndOf: connection) } else { putBack(again) }
    }

    // MARK: Settling

    func settle(_ reference: RequestReference, _ kind: Completion.Kind, mayHaveBeenProcessed: Bool) {
        loop.completions.add(
            reference.submission,
            index: reference.index,
            kind: kind,
            mayHaveBeenProcessed: mayHaveBeenProcessed
        )
        noteSettled(reference.submission)
    }

    func settleAnswer(_ reference: RequestReference, from slot: borrowing StreamSlot) {
        loop.completions.addAnswer(reference.submission, index: reference.index, from: slot)
        noteSettled(reference.submission)
    }

    private func noteSettled(_ submission: Submission) {
        submission.unsettled -= 1
        if submission.unsettled == 0 { submissions.removeAll { $0 === submission } }
    }

    // Settles all requests of a submission that wait.
    private func settleWaiting(_ submission: Submission, _ kind: Completion.Kind) {
        guard submission.waiting > 0 else { return }
        for references in [returned, suspects, tried] {
            for reference in references.removeAll() {
                guard reference.submission === submission else {
                    references.append(reference)
                    continue
                }
                dequeue(submission)
                settle(reference, kind, mayHaveBeenProcessed: false)
            }
        }
        while let index = submission.cursor.next() {
            dequeue(submission)
            let reference = RequestReference(submission: submission, index: index)
            settle(reference, kind, mayHaveBeenProcessed: false)
        }
    }

    func dequeue(_ submission: Submission) {
        submission.waiting -= 1
        queuedCount -= 1
    }

    func settleAllWaiting(_ kind: Completion.Kind) {
        for submission in submissions { settleWaiting(submission, kind) }
        forgetEmptied()
    }

    // Without a connection nobody walks the queue: what was settled in it must not pile up there.
    private func forgetEmptied() {
        for submission in queue.removeAll() where submission.cursor.remaining > 0 { queue.append(submission) }
    }

    func cancel(tag: Int) {
        for submission in submissions where submission.tag == tag && !submission.isSingle {
            submission.isCancelled = true
            settleWaiting(submission, .cancelled)
        }
        forgetEmptied()
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
        defer { forgetEmptied() }
        for submission in submissions where submission.waiting > 0 {
            if submission.expiresAt <= loop.now {
                settleWaiting(submission, .expired)
            } else if patienceEnds(for: submission) <= loop.now {
                settleWaiting(submission, .unanswered(lastConnectCause))
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
