internal import PushCore

// Requests under suspicion. A connection that ends without having processed a request may have ended because of it: so
// those that came back from several connections, or from one that answered nothing, are tried over a connection of their
// own, and one that ends every connection holds up no other. It is found by halving: as long as trials go well more and
// more are out at once, and when one ends, half as many of those that were.
extension Pool {
    // Connections that ended over a request while it was alone on trial, until it is given up (a guess).
    static let strikeLimit: UInt8 = 3
    // One connection may end for any reason (a guess).
    private static let endingLimit: UInt8 = 2

    // Surely not processed, on a connection that ended.
    func putBack(_ reference: RequestReference, fromEndOf connection: Connection) {
        var reference = reference
        reference.endings = min(reference.endings + 1, Pool.endingLimit)
        let isSuspect = reference.endings == Pool.endingLimit || connection.window.answers == 0
        enqueue(reference, in: connection.isTrial ? tried : isSuspect ? suspects : returned)
    }

    // The next request to try. Settles what is too late.
    func nextSuspect() -> RequestReference? {
        popFirst(of: suspects)
    }

    func trialAnswered() {
        if !isNarrowing { trialWidth += 1 }
    }

    // The connection for trials is closed: judges those that came back from it.
    func trialEnded() {
        let others = suspects.removeAll()
        guard tried.count == 1, var culprit = tried.popFirst() else {
            if !tried.isEmpty {
                trialWidth = tried.count / 2
                isNarrowing = true
            }
            for reference in tried.removeAll() + others { suspects.append(reference) }
            return
        }
        culprit.strikes += 1
        nextTrialAt = loop.now + configuration.backoff.delay(afterFailures: Int(culprit.strikes))
        if culprit.strikes == Pool.strikeLimit { giveUp(culprit) } else { suspects.append(culprit) }
        // It ends connections by itself, and the others only were beside it.
        for reference in others { returned.append(reference) }
        trialWidth = 1
        isNarrowing = false
    }

    private func giveUp(_ reference: RequestReference) {
        dequeue(reference.submission)
        settle(reference, .unanswered(.refused), mayHaveBeenProcessed: false)
        loop.report(
            id,
            .requestGivenUp,
            "\(configuration.host) ended \(reference.strikes) connections over one request alone"
        )
    }

    // Has a connection for what is to be tried, and lets it go when nothing is.
    func considerTrial() {
        if let trial = connections.first(where: { $0.isTrial && !$0.state.isDraining }) {
            if suspects.isEmpty, trial.state.isActive, trial.state.openStreams == 0 { trial.retire() }
            return
        }
        guard !suspects.isEmpty else { return }
        let due = max(nextTrialAt, nextConnectAt)
        guard loop.now >= due else { return wake(at: due) }
        connect(isTrial: true)
    }
}
