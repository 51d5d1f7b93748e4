import PushCore
import Testing

@Suite struct OutcomeTests {
    @Test(arguments: [
        (Outcome.UnansweredCause.notProcessed, Disposition.retryNow),
        (.unreachable, .retry(RetryAdvice(.connection))),
        (.timedOut, .doubtful),
        (.streamReset, .doubtful),
        (.connectionLost, .doubtful),
    ])
    func `what was surely not processed goes again at once, what may have been is in doubt`(
        cause: Outcome.UnansweredCause,
        disposition: Disposition
    ) {
        let verdict = Verdict(unanswered: cause)
        #expect(verdict.outcome == .unanswered(cause))
        #expect(verdict.disposition == disposition)
    }

    @Test func `a byte writer writes numbers of every size`() {
        var writer = ByteWriter()
        for number in [0, 7, 10, -1, Int.max, Int.min] {
            writer.append(decimal: number)
            writer.append(",")
        }
        writer.append(decimal: UInt64.max)
        writer.append(hex: 0xAB, digits: 4)
        let text = String(decoding: writer.bytes, as: UTF8.self)
        #expect(text == "0,7,10,-1,9223372036854775807,-9223372036854775808,1844674407370955161500ab")
        writer.removeAll()
        #expect(writer.count == 0)
    }
}
