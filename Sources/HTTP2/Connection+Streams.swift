internal import PushCore

// What goes out.
extension Connection {
    // Frames requests until 16 KiB are gathered or nothing more may be sent, and writes once.
    // True when another round would find more to do.
    @discardableResult
    func pump() -> Bool {
        guard let session, !isWriteBlocked else { return false }
        session.sendBlocked(for: self)
        while output.count < OutputBuffer.target, canOpenStream,
            let reference = isTrial ? pool.nextSuspect() : pool.next()
        {
            open(reference, in: session)
        }
        guard !state.isClosed, !output.isEmpty else { return false }
        if let failure = writeOnce() { endAfterReading(failure) }
        guard !state.isClosed, !isWriteBlocked else { return false }
        let hasQueued = isTrial ? !pool.suspects.isEmpty : pool.hasUnsuspected
        return !output.isEmpty || session.mayUnblock || canOpenStream && hasQueued
    }

    private func open(_ reference: RequestReference, in session: Session) {
        let submission = reference.submission
        let deadline = loop.now.after(nanoseconds: submission.timeLimitNanoseconds)
        let secondsLeft = pool.secondsLeft(of: submission)
        switch session.open(reference, pool.fields, deadline: deadline, secondsLeft: secondsLeft) {
        case .slot(let slot):
            state.streamOpened()
            requestsFramed += 1
            pool.requestsFramed += 1
            let end = endOfTime(slot, submission)
            if end < nextSweep {
                nextSweep = end
                wake(at: end)
            }
            if state.openStreams == 1 { noteBusy() }
        case .noMoreStreams:
            pool.putBack(reference)
            retire()
        case .tooLarge:
            pool.settle(reference, .unanswered(.refused), mayHaveBeenProcessed: false)
        }
    }
}
