import PushCore
import TestSupport
import Testing

@Suite struct RetryPolicyTests {
    private let policy = RetryPolicy.standard

    private func waits(_ advice: RetryAdvice, attempt: Int, timeLeft: Duration, samples: Int = 500) -> [Duration] {
        var random = SeededGenerator(seed: 11)
        return (0..<samples).compactMap { _ in
            guard case .retry(let wait) = policy.decide(advice, attempt: attempt, timeLeft: timeLeft, using: &random)
            else { return nil }
            return wait
        }
    }

    private func decide(_ advice: RetryAdvice, attempt: Int, timeLeft: Duration) -> RetryPolicy.Decision {
        var random = SeededGenerator(seed: 11)
        return policy.decide(advice, attempt: attempt, timeLeft: timeLeft, using: &random)
    }

    @Test(arguments: [(1, 1), (2, 2), (3, 4), (8, 300), (11, 3_600)])
    func `the wait is spread evenly up to the step`(attempt: Int, step: Int) throws {
        let waits = waits(RetryAdvice(.provider), attempt: attempt, timeLeft: .seconds(86_400))
        #expect(waits.count == 500)
        #expect(waits.allSatisfy { $0 >= .zero && $0 <= .seconds(step) })
        #expect(try #require(waits.min()) < .seconds(step) / 10)
        #expect(try #require(waits.max()) > .seconds(step) / 10 * 9)
    }

    @Test func `case 74: the wait is at least what the provider asked for, and about that`() {
        let waits = waits(RetryAdvice(.provider, minimum: .seconds(120)), attempt: 1, timeLeft: .seconds(3_600))
        #expect(waits.count == 500)
        #expect(waits.allSatisfy { $0 >= .seconds(120) && $0 <= .seconds(121) })
    }

    @Test func `case 75: a wait beyond the expiry is an expiry, never an earlier retry`() {
        let advice = RetryAdvice(.provider, minimum: .seconds(7_200))
        #expect(decide(advice, attempt: 1, timeLeft: .seconds(3_600)) == .expired)
        #expect(decide(advice, attempt: 1, timeLeft: .seconds(7_200)) == .expired)
        #expect(
            decide(RetryAdvice(.provider, minimum: RetryAfter.limit), attempt: 1, timeLeft: .seconds(60)) == .expired
        )
    }

    @Test func `a retry comes before the expiry, however near it is`() {
        let waits = waits(RetryAdvice(.provider), attempt: 9, timeLeft: .seconds(3))
        #expect(waits.count == 500)
        #expect(waits.allSatisfy { $0 < .seconds(3) })
        #expect(decide(RetryAdvice(.provider), attempt: 1, timeLeft: .zero) == .expired)
        #expect(decide(RetryAdvice(.provider), attempt: 1, timeLeft: .seconds(-1)) == .expired)
    }

    @Test func `case 82: attempts end`() {
        #expect(decide(RetryAdvice(.provider), attempt: 12, timeLeft: .seconds(86_400)) == .exhausted)
        #expect(decide(RetryAdvice(.device), attempt: 12, timeLeft: .seconds(86_400)) == .exhausted)
        #expect(decide(RetryAdvice(.provider), attempt: 11, timeLeft: .seconds(86_400)) != .exhausted)
    }

    @Test func `case 82: advice may allow fewer attempts, and no more of them`() {
        let few = RetryAdvice(.provider, attemptLimit: 5)
        #expect(decide(few, attempt: 4, timeLeft: .seconds(86_400)) != .exhausted)
        #expect(decide(few, attempt: 5, timeLeft: .seconds(86_400)) == .exhausted)
        #expect(decide(few.waiting(atLeast: .seconds(9)), attempt: 5, timeLeft: .seconds(86_400)) == .exhausted)
        let many = RetryAdvice(.provider, attemptLimit: 50)
        #expect(decide(many, attempt: 12, timeLeft: .seconds(86_400)) == .exhausted)
    }

    @Test func `case 83: connections get more patience and shorter waits`() {
        #expect(decide(RetryAdvice(.connection), attempt: 99, timeLeft: .seconds(86_400)) != .exhausted)
        #expect(decide(RetryAdvice(.connection), attempt: 100, timeLeft: .seconds(86_400)) == .exhausted)
        let waits = waits(RetryAdvice(.connection), attempt: 50, timeLeft: .seconds(86_400))
        #expect(waits.allSatisfy { $0 <= .seconds(60) })
    }
}

@Suite struct RetryAfterTests {
    /// 2026-03-02T10:00:00Z
    private let now: Int64 = 1_772_445_600

    private func parse(_ field: String) -> Duration? {
        RetryAfter.parse(Array(field.utf8).span, now: now)
    }

    @Test(arguments: [
        ("120", 120), ("  120\t", 120), ("7200", 7_200), ("1", 1),
        ("Mon, 02 Mar 2026 10:02:00 GMT", 120), ("Monday, 02-Mar-26 10:02:00 GMT", 120),
        ("Mon Mar  2 10:02:00 2026", 120),
    ])
    func `case 74: seconds and dates are read`(field: String, seconds: Int) {
        #expect(parse(field) == .seconds(seconds))
    }

    @Test(arguments: [
        "0", "-5", "abc", "", " ", "1.5", "12x", "Mon, 02 Mar 2026 09:58:00 GMT", "Mon, 02 Mar 2026 10:02:00 CET",
        "Mon, 99 Mar 2026 10:02:00 GMT", "Mon, 02 Foo 2026 10:02:00 GMT", "Mon, 02 Mar 2026 10:02 GMT", "\u{0}", "é",
    ])
    func `cases 74 and 75: zero, past, negative and unreadable values ask for nothing`(field: String) {
        #expect(parse(field) == nil)
    }

    @Test(arguments: ["99999999999", "99999999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
    func `a huge value is held to ten years and overflows nothing`(field: String) {
        #expect(parse(field) == RetryAfter.limit)
    }

    @Test func `dates count from 1970 with leap years`() {
        #expect(HTTPDate.parse("Thu, 01 Jan 1970 00:00:00 GMT") == 0)
        #expect(HTTPDate.parse("Sun, 06 Nov 1994 08:49:37 GMT") == 784_111_777)
        #expect(HTTPDate.parse("Sunday, 06-Nov-94 08:49:37 GMT") == 784_111_777)
        #expect(HTTPDate.parse("Sun Nov  6 08:49:37 1994") == 784_111_777)
        #expect(HTTPDate.parse("Thu, 29 Feb 2024 12:00:00 GMT") == 1_709_208_000)
        #expect(HTTPDate.parse("Fri, 01 Mar 2024 00:00:00 GMT") == 1_709_251_200)
    }
}
