/// When a message that may be sent again is sent again. Pure: the caller passes in attempts, time left and chance.
///
/// Full jitter: the wait after attempt n is drawn evenly from nothing up to step n of the obstacle's ladder, on top of the
/// minimum that the provider asked for, and never up to the expiry. The last step repeats until the attempts are used up.
package struct RetryPolicy: Sendable, Equatable {
    /// Rising upper bounds of the wait, and how often a message is sent at most.
    package struct Ladder: Sendable, Equatable {
        /// The upper bound of the wait after the first attempt, the second, and so on.
        package let steps: [Duration]
        /// Attempts in all, the first one included.
        package let attemptLimit: Int

        /// - Precondition: there is a step, and at least one attempt.
        package init(steps: [Duration], attemptLimit: Int) {
            precondition(!steps.isEmpty && attemptLimit >= 1, "a ladder needs a step and an attempt")
            self.steps = steps
            self.attemptLimit = attemptLimit
        }
    }

    /// What happens next.
    package enum Decision: Sendable, Equatable {
        case retry(after: Duration)
        /// The expiry comes first.
        case expired
        /// The attempts are used up.
        case exhausted
    }

    package let provider: Ladder
    package let connection: Ladder
    package let device: Ladder

    package init(provider: Ladder, connection: Ladder, device: Ladder) {
        self.provider = provider
        self.connection = connection
        self.device = device
    }

    /// Provider faults: seconds first, for messages that matter now, then the quarter hours that Apple asks for; 12 attempts,
    /// some two hours at most. Connections: never over a minute, since others wait for the same connection; 100 attempts. One
    /// device: a second doubling to five minutes; 12 attempts. All guesses within the providers' advice.
    package static let standard = RetryPolicy(
        provider: Ladder(
            steps: [1, 2, 4, 8, 16, 32, 60, 300, 900, 1_800, 3_600].map { .seconds($0) },
            attemptLimit: 12
        ),
        connection: Ladder(steps: [1, 2, 4, 8, 16, 32, 60].map { .seconds($0) }, attemptLimit: 100),
        device: Ladder(steps: [1, 2, 4, 8, 16, 32, 64, 128, 256, 300].map { .seconds($0) }, attemptLimit: 12)
    )

    /// Decides about a message after `attempt` attempts (from 1) with `timeLeft` until its expiry.
    /// A minimum of the provider is never cut short: if it reaches beyond the expiry, the message has expired.
    package func decide(
        _ advice: RetryAdvice,
        attempt: Int,
        timeLeft: Duration,
        using random: inout some RandomNumberGenerator
    ) -> Decision {
        let ladder =
            switch advice.obstacle {
            case .provider: provider
            case .connection: connection
            case .device: device
            }
        guard timeLeft > .zero else { return .expired }
        guard attempt < min(ladder.attemptLimit, advice.attemptLimit ?? .max) else { return .exhausted }
        let minimum = max(.zero, advice.minimum ?? .zero)
        guard minimum < timeLeft else { return .expired }
        let step = ladder.steps[min(max(attempt, 1), ladder.steps.count) - 1]
        let room = min(step, timeLeft - minimum - .milliseconds(1))
        let jitter = Int64.random(in: 0...max(0, room.wholeMicroseconds), using: &random)
        return .retry(after: minimum + .microseconds(jitter))
    }
}
