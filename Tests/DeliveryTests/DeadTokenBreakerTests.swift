@testable import Delivery
import Testing

@Suite struct DeadTokenBreakerTests {
    private let start = ContinuousClock.now

    private func report<Candidate>(
        _ action: DeadTokenBreaker<Candidate>.Action
    ) -> DeadTokenBreaker<Candidate>.Report? {
        if case .report(let report) = action { report } else { nil }
    }

    private func isHold<Candidate>(_ action: DeadTokenBreaker<Candidate>.Action) -> Bool {
        if case .hold = action { true } else { false }
    }

    @Test func `a few among many are reported once enough answers came`() {
        var breaker = DeadTokenBreaker<Int>()
        breaker.dead(1, isSuspect: true, now: start)
        breaker.accepted(100)
        let early = breaker.judge(now: start, isIdle: false)
        #expect(report(early) == nil)
        breaker.accepted(100)
        let late = report(breaker.judge(now: start, isIdle: false))
        #expect(late?.suspects == [1] && late?.accepted == 200 && late?.mayDisableSuspects == true)
        let again = report(breaker.judge(now: start, isIdle: true))
        #expect(again == nil, "what was reported is not reported twice")
    }

    @Test func `a small send is reported when it is over`() {
        var breaker = DeadTokenBreaker<Int>()
        for number in 0..<3 { breaker.dead(number, isSuspect: true, now: start) }
        breaker.dead(3, isSuspect: false, now: start)
        let running = breaker.judge(now: start + .seconds(60), isIdle: false)
        #expect(report(running) == nil, "a high share waits for the end")
        let over = report(breaker.judge(now: start + .seconds(2), isIdle: true))
        #expect(over?.suspects.count == 3 && over?.others == [3])
    }

    @Test func `what counts as no suspect waits for no share`() {
        var breaker = DeadTokenBreaker<Int>()
        for number in 0..<50 { breaker.dead(number, isSuspect: false, now: start) }
        let report = report(breaker.judge(now: start + .seconds(6), isIdle: false))
        #expect(report?.others.count == 50)
    }

    @Test func `accepted pushes are reported at once, then now and then`() {
        var breaker = DeadTokenBreaker<Int>()
        breaker.accepted(2)
        #expect(report(breaker.judge(now: start, isIdle: true))?.accepted == 2)
        breaker.accepted(3)
        #expect(report(breaker.judge(now: start + .seconds(29), isIdle: true)) == nil)
        #expect(report(breaker.judge(now: start + .seconds(30), isIdle: true))?.accepted == 3)
    }

    @Test func `a high share holds the channel, longer each time, and disables none of them`() {
        var breaker = DeadTokenBreaker<Int>()
        for number in 0..<20 { breaker.dead(number, isSuspect: true, now: start) }
        let first = breaker.judge(now: start, isIdle: false)
        guard case .hold(let until, let report) = first else {
            Issue.record("it was not held")
            return
        }
        #expect(until == start + .seconds(60) && breaker.heldUntil == until)
        #expect(report.suspects.count == 20 && !report.mayDisableSuspects)
        let later = start + .seconds(61)
        breaker.dead(21, isSuspect: true, now: later)
        let second = breaker.judge(now: later, isIdle: true)
        #expect(isHold(second), "the first answers that are no better hold it again")
        #expect(breaker.heldUntil == later + .seconds(120))
    }

    @Test func `suspects that come one by one add up`() {
        var breaker = DeadTokenBreaker<Int>()
        var held = 0
        for number in 0..<25 {
            let now = start + .seconds(number * 10)
            breaker.dead(number, isSuspect: true, now: now)
            if isHold(breaker.judge(now: now + .seconds(2), isIdle: true)) { held += 1 }
        }
        #expect(held > 0)
    }
}
