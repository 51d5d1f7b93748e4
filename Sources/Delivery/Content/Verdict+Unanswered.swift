package import HTTP2
package import PushCore

extension Verdict {
    /// Attempts in all of a message over which connections end or that is refused again and again: each of them costs the
    /// others the connections that it goes over.
    private static let fewAttempts = 5

    /// What follows from a request that the HTTP/2 client could get no whole answer to.
    /// - Parameter mayHaveBeenProcessed: whether the request had been handed to the network whole.
    package init(unanswered cause: HTTP2.UnansweredCause, mayHaveBeenProcessed: Bool) {
        if cause == .refused {
            let advice = RetryAdvice(.connection, attemptLimit: Self.fewAttempts)
            self.init(.unanswered(.unreachable), .retry(advice))
            return
        }
        let outcomeCause: Outcome.UnansweredCause =
            switch cause {
            case .nameNotResolved, .connectFailed, .tlsFailed, .refused, .noStreamsAllowed: .unreachable
            case .timedOut where mayHaveBeenProcessed: .timedOut
            case .streamReset where mayHaveBeenProcessed: .streamReset
            case .connectionLost where mayHaveBeenProcessed: .connectionLost
            case .timedOut, .streamReset, .connectionLost: .unreachable
            case .poolClosed: mayHaveBeenProcessed ? .connectionLost : .notProcessed
            }
        self.init(unanswered: outcomeCause)
    }
}
