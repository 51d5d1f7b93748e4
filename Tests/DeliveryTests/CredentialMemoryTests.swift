@testable import Delivery
import PushCore
import Testing

@Suite struct CredentialMemoryTests {
    private let start = ContinuousClock.now

    private func version(_ number: Int64) -> ProviderCredential.Version {
        ProviderCredential.Version(
            id: CredentialID(number),
            updatedAt: WallClock.Instant(microsecondsSinceEpoch: number)
        )
    }

    @Test func `what nothing was learned about for longest is forgotten first`() {
        var memory = CredentialMemory<Int>()
        for number in 1...10 { memory[version(Int64(number)), default: 0] += number }
        memory[version(1), default: 0] += 100
        memory.trim(to: 3) { _, _ in false }
        #expect(Set(memory.versions) == [version(1), version(9), version(10)])
        #expect(memory[version(1)] == 101 && memory[version(2)] == nil)
    }

    @Test func `what still matters is kept beyond the limit, and goes when it does not`() {
        var memory = CredentialMemory<Int>()
        for number in 1...10 { memory[version(Int64(number))] = number }
        memory.trim(to: 2) { _, value in value <= 5 }
        #expect(Set(memory.versions) == Set((1...5).map { version($0) }))
        memory.trim(to: 2) { _, value in value == 1 }
        #expect(Set(memory.versions) == [version(1), version(5)])
    }

    @Test func `a breaker that holds its channel or has something to judge outlives many others`() {
        var breakers = CredentialMemory<DeadTokenBreaker<Int>>()
        for suspect in 0..<20 {
            breakers[version(1), default: DeadTokenBreaker()].dead(suspect, isSuspect: true, now: start)
        }
        _ = breakers[version(1), default: DeadTokenBreaker()].judge(now: start, isIdle: false)
        breakers[version(2), default: DeadTokenBreaker()].dead(1, isSuspect: true, now: start)
        for number in Int64(3)...2_000 { breakers[version(number), default: DeadTokenBreaker()].accepted(1) }
        let now = start + .seconds(1)
        breakers.trim(to: 1_000) { _, breaker in breaker.isAlarmed(now: now) }
        #expect(breakers.count == 1_000)
        #expect(breakers[version(1)]?.heldUntil == start + .seconds(60))
        #expect(breakers[version(2)]?.hasCandidates == true)
        #expect(breakers[version(1_002)] == nil && breakers[version(1_003)] != nil, "idle ones go in order")
        let later = start + .seconds(120)
        breakers.trim(to: 1) { _, breaker in breaker.isAlarmed(now: later) }
        #expect(breakers.versions == [version(2)], "a hold that is over is idle")
    }
}
