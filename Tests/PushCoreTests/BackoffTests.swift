import PushCore
import Testing

@Suite struct BackoffTests {
    private let backoff = Backoff(first: .milliseconds(100), longest: .seconds(2))

    @Test func `the ceiling doubles up to the longest wait`() {
        let ceilings = (1...7).map { backoff.ceiling(afterFailures: $0) }
        #expect(ceilings == [100, 200, 400, 800, 1600, 2000, 2000].map { .milliseconds($0) })
        #expect(backoff.ceiling(afterFailures: 1_000_000) == .seconds(2))
    }

    @Test func `waits are spread over the whole range`() {
        var generator = SystemRandomNumberGenerator()
        let delays = (0..<1000).map { _ in backoff.delay(afterFailures: 3, using: &generator) }
        #expect(delays.allSatisfy { .zero...Duration.milliseconds(400) ~= $0 })
        #expect(delays.contains { $0 < .milliseconds(100) })
        #expect(delays.contains { $0 > .milliseconds(300) })
    }

    @Test func `the minimum holds even above the ceiling`() {
        #expect(backoff.delay(afterFailures: 1, atLeast: .seconds(9)) == .seconds(9))
        #expect(backoff.delay(afterFailures: 3, atLeast: .milliseconds(300)) >= .milliseconds(300))
    }
}
