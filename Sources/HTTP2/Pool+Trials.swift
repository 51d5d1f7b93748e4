internal import PushCore

// Requests under suspicion. A connection that ends without having processed a request may have ended because of it: so
// those that came back from two connections, or from one that answered nothing, are tried over a connection of their own,
// and one that ends every connection holds up no other. It is found by halving: as long as trials go well more and more
// are out at once, and when one ends, half as many of those that were. What it ended over alone is given up.
extension Pool {
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
        trialFailures = 0
        // As many as were out when a trial ended: the culprit would be among them.
        if halvedLeft > 0 { halvedLeft -= 1 } else { trialWidth += 1 }
    }

    // The connection for trials is closed: judges those that came back from it.
    func trialEnded(_ trial: Connection) {
        let back = tried.removeAll()
        if back.count > 1 {
            trialWidth = back.count / 2
            halvedLeft = back.count
            for reference in back + suspects.removeAll() { suspects.append(reference) }
            return
        }
        trialWidth = 1
        halvedLeft = 0
        if let culprit = back.first { giveUp(culprit) }
        // The first of a row has no wait: the next trial is most likely of a request that does no harm.
        guard trial.window.answers == 0, trial.requestsFramed > 0 || trial.trouble != nil else { return }
        trialFailures = isAnswering ? 1 : trialFailures + 1
        if trialFailures > 1 { nextTrialAt = loop.now + configuration.backoff.delay(afterFailures: trialFailures - 1) }
    }

    private func giveUp(_ reference: RequestReference) {
        dequeue(reference.submission)
        settle(reference, .unanswered(.refused), mayHaveBeenProcessed: false)
        loop.report(id, .requestGivenUp, "\(configuration.host) ended a connection over one request alone")
    }

    // Has a connection for what is to be tried, and lets it go when nothing is.
    func considerTrial() {
        if let trial = connections.first(where: { $0.isTrial && !$0.state.isDraining }) {
            if suspects.isEmpty, trial.state.isActive, trial.state.openStreams == 0 { trial.retire() }
            return
        }
        guard !suspects.isEmpty else { return }
        guard loop.now >= nextTrialAt else { return wake(at: nextTrialAt) }
        connect(isTrial: true)
    }
}
