import Delivery
import HTTP2
import PushCore
import Testing

@Suite struct ContentVerdictTests {
    @Test(arguments: [
        HTTP2.UnansweredCause.timedOut, .connectionLost, .streamReset(code: 2),
    ])
    func `what reached the network without an answer is in doubt, what did not is not`(cause: HTTP2.UnansweredCause) {
        #expect(Verdict(unanswered: cause, mayHaveBeenProcessed: true).disposition == .doubtful)
        #expect(
            Verdict(unanswered: cause, mayHaveBeenProcessed: false).disposition == .retry(RetryAdvice(.connection))
        )
    }

    @Test(arguments: [
        HTTP2.UnansweredCause.noStreamsAllowed, .nameNotResolved, .connectFailed, .tlsFailed,
    ])
    func `cases 59 and 83: without a connection a message waits for one`(cause: HTTP2.UnansweredCause) {
        let verdict = Verdict(unanswered: cause, mayHaveBeenProcessed: false)
        #expect(verdict == Verdict(.unanswered(.unreachable), .retry(RetryAdvice(.connection))))
    }

    @Test func `a message over which connections end has few attempts`() {
        let verdict = Verdict(unanswered: .refused, mayHaveBeenProcessed: false)
        #expect(verdict == Verdict(.unanswered(.unreachable), .retry(RetryAdvice(.connection, attemptLimit: 5))))
    }

    @Test func `a closed pool gives messages back unless they were on the wire`() {
        #expect(Verdict(unanswered: .poolClosed, mayHaveBeenProcessed: false).disposition == .retryNow)
        #expect(Verdict(unanswered: .poolClosed, mayHaveBeenProcessed: true).disposition == .doubtful)
    }
}
