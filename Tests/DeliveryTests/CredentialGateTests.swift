@testable import Delivery
import Testing

@Suite struct CredentialGateTests {
    private let first = CredentialGate.Probe(batch: 1, request: 7)
    private let second = CredentialGate.Probe(batch: 2, request: 9)

    @Test func `one refusal is probed, and an accepted probe opens the gate`() {
        var gate = CredentialGate()
        let refused = [gate.refused(first, reason: "R"), gate.refused(second, reason: "R")]
        #expect(refused == [.probe, .none])
        #expect(!gate.isOpen && !gate.wantsProbe)
        gate.renewed()
        #expect(gate.wantsProbe)
        gate.probing(with: second)
        #expect(gate.probe == second)
        let other = gate.answered(first)
        #expect(other == .none)
        let action = gate.answered(second)
        #expect(action == .open)
        #expect(gate.isOpen)
    }

    @Test func `a refused probe closes the gate for good`() {
        var gate = CredentialGate()
        _ = gate.refused(first, reason: "R")
        gate.renewed()
        gate.probing(with: first)
        let action = gate.refused(first, reason: "S")
        #expect(action == .close(reason: "S"))
        #expect(gate.closedReason == "S")
        let later = gate.refused(second, reason: "R")
        #expect(later == .none)
    }

    @Test func `a probe without an answer makes room for another`() {
        var gate = CredentialGate()
        _ = gate.refused(first, reason: "R")
        gate.renewed()
        gate.probing(with: first)
        gate.probeLost(second)
        #expect(!gate.wantsProbe)
        gate.probeLost(first)
        #expect(gate.wantsProbe)
    }
}

@Suite struct DeadTokenBreakerTests {
    private let start = ContinuousClock.now

    private func disabled<Candidate>(_ action: DeadTokenBreaker<Candidate>.Action) -> Int? {
        if case .disable(let dead) = action { dead.count } else { nil }
    }

    private func isHold<Candidate>(_ action: DeadTokenBreaker<Candidate>.Action) -> Bool {
        if case .hold = action { true } else { false }
    }

    @Test func `a few among many are disabled once enough answers came`() {
        var breaker = DeadTokenBreaker<Int>()
        breaker.suspect(1, now: start)
        breaker.answered(100)
        let early = breaker.judge(now: start, isIdle: false)
        #expect(disabled(early) == nil)
        breaker.answered(100)
        let action = breaker.judge(now: start, isIdle: false)
        #expect(disabled(action) == 1)
    }

    @Test func `a small send is judged when it is over`() {
        var breaker = DeadTokenBreaker<Int>()
        for number in 0..<3 { breaker.suspect(number, now: start) }
        let running = breaker.judge(now: start + .seconds(60), isIdle: false)
        #expect(disabled(running) == nil, "a high share waits for the end")
        let action = breaker.judge(now: start + .seconds(2), isIdle: true)
        #expect(disabled(action) == 3)
    }

    @Test func `a high share holds the channel, longer each time, and disables nobody`() {
        var breaker = DeadTokenBreaker<Int>()
        for number in 0..<20 { breaker.suspect(number, now: start) }
        let first = breaker.judge(now: start, isIdle: false)
        #expect(isHold(first))
        #expect(breaker.heldUntil == start + .seconds(60))
        let later = start + .seconds(61)
        breaker.suspect(21, now: later)
        let second = breaker.judge(now: later, isIdle: true)
        #expect(isHold(second), "the first answers that are no better hold it again")
        #expect(breaker.heldUntil == later + .seconds(120))
    }

    @Test func `suspects that come one by one add up`() {
        var breaker = DeadTokenBreaker<Int>()
        var held = 0
        for number in 0..<25 {
            let now = start + .seconds(number * 10)
            breaker.suspect(number, now: now)
            if isHold(breaker.judge(now: now + .seconds(2), isIdle: true)) { held += 1 }
        }
        #expect(held > 0)
    }
}
