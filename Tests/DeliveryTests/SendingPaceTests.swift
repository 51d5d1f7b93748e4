@testable import Delivery
import Testing

@Suite struct SendingPaceTests {
    private let start = ContinuousClock.now

    @Test func `without a refusal there is no limit`() {
        var pace = SendingPace()
        pace.accepted(1_000_000, now: start)
        let allowed = pace.allowed(now: start)
        #expect(allowed == .max && !pace.isLimited)
    }

    @Test func `a refusal halves what was taken, a burst of them once`() {
        var pace = SendingPace()
        for second in 0..<10 { pace.accepted(1_000, now: start + .seconds(second)) }
        let now = start + .seconds(10)
        let refusals = [pace.refused(now: now), pace.refused(now: now + .milliseconds(10))]
        #expect(refusals == [true, false])
        #expect(pace.messagesPerSecond.map { $0 > 400 && $0 < 600 } == true)
        let none = pace.allowed(now: now)
        let some = pace.allowed(now: now + .milliseconds(100))
        #expect(none == 0 && some > 40 && some < 60)
        pace.spend(some)
        let left = pace.allowed(now: now + .milliseconds(100))
        #expect(left == 0)
    }

    @Test func `an hour in which nothing was sent says nothing of what is taken now`() {
        var pace = SendingPace()
        pace.accepted(1_000, now: start)
        pace.accepted(1_000, now: start + .seconds(3_600))
        _ = pace.refused(now: start + .seconds(3_601))
        #expect(pace.messagesPerSecond == 500)
    }

    @Test func `the rate doubles in half a minute, and a quarter of an hour without a refusal ends it`() {
        var pace = SendingPace()
        pace.accepted(500, now: start)
        _ = pace.refused(now: start + .seconds(1))
        let first = pace.messagesPerSecond ?? 0
        for tick in 50...1_550 { _ = pace.allowed(now: start + .milliseconds(tick * 20)) }
        let second = pace.messagesPerSecond ?? 0
        #expect(second > first * 1.9 && second < first * 2.1)
        let last = pace.allowed(now: start + .seconds(1_000))
        #expect(last == .max)
    }

    @Test func `one device that gets too much slows nobody, most of them slow everybody`() {
        var pace = SendingPace()
        pace.accepted(1_000, now: start)
        var slowed = (0..<900).map { _ in pace.refusedForDevice(now: start) }
        #expect(!slowed.contains(true) && !pace.isLimited)
        slowed = (0..<100).map { _ in pace.refusedForDevice(now: start) }
        #expect(slowed.contains(true) && pace.isLimited)
    }

    /// A provider that takes 60 in five seconds, and drops whoever is refused 300 times; 5,000 messages. Time is made up.
    @Test(arguments: [5, 60, 1_800])
    func `case 79: the whole of an app gets slower, is never banned, and all of it arrives`(retryAfter: Int) {
        var pace = SendingPace()
        var now = start
        var windowEnd = start
        var taken = 0
        var left = 5_000
        var refusals = 0
        var heldUntil = start
        while left > 0, now < start + .seconds(86_400) {
            now += .milliseconds(20)
            guard now >= heldUntil else { continue }
            let sent = min(left, 100, pace.allowed(now: now))
            guard sent > 0 else { continue }
            pace.spend(sent)
            if now >= windowEnd { (windowEnd, taken) = (now + .seconds(5), 0) }
            let accepted = min(sent, 60 - taken)
            taken += accepted
            left -= accepted
            pace.accepted(accepted, now: now)
            guard accepted < sent else { continue }
            refusals += sent - accepted
            _ = pace.refused(now: now)
            heldUntil = now + .seconds(retryAfter)
            pace.rest(until: heldUntil)
        }
        #expect(left == 0)
        #expect(refusals < 300)
    }
}
