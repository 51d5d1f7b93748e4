/// Exponential growth with full jitter: each wait is uniform between the minimum and a ceiling that doubles.
package struct Backoff: Sendable, Hashable {
    /// The ceiling of the first wait.
    package let first: Duration
    /// The ceiling that the doubling stops at.
    package let longest: Duration

    /// - Precondition: `0 < first <= longest`.
    package init(first: Duration, longest: Duration) {
        precondition(first > .zero && first <= longest, "a backoff grows from above zero up to its longest wait")
        self.first = first
        self.longest = longest
    }

    /// The ceiling of the wait after `failures` failures in a row, counted from 1.
    package func ceiling(afterFailures failures: Int) -> Duration {
        var ceiling = first
        for _ in 1..<max(failures, 1) {
            ceiling *= 2
            if ceiling >= longest { return longest }
        }
        return ceiling
    }

    /// How long to wait after `failures` failures in a row, counted from 1; never less than `minimum`.
    package func delay(
        afterFailures failures: Int,
        atLeast minimum: Duration = .zero,
        using generator: inout some RandomNumberGenerator
    ) -> Duration {
        let ceiling = max(ceiling(afterFailures: failures), minimum)
        let spread = (ceiling - minimum).wholeMicroseconds
        return minimum + .microseconds(Int64.random(in: 0...spread, using: &generator))
    }

    /// The same with the system's random numbers.
    package func delay(afterFailures failures: Int, atLeast minimum: Duration = .zero) -> Duration {
        var generator = SystemRandomNumberGenerator()
        return delay(afterFailures: failures, atLeast: minimum, using: &generator)
    }
}
