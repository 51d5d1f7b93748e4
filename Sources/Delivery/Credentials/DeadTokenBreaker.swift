/// Keeps a mistake of ours from disabling devices: a wrong environment, topic or project makes every token look dead.
///
/// Candidates are only disabled once enough answers show that they are a few among many. If their share jumps, nobody is
/// disabled and the channel is held for a while. Pure: answers and the time come from outside.
struct DeadTokenBreaker<Candidate: Sendable>: Sendable {
    /// What follows from the answers so far.
    enum Action: Sendable {
        case none
        /// These are dead indeed.
        case disable([Candidate])
        /// Too many at once: hold the channel until the moment, disable nobody.
        case hold(until: ContinuousClock.Instant, dropped: Int)
    }

    /// So many answers are enough to judge by; older ones count less and less.
    private static var sample: Int { 200 }
    /// Fewer suspects than this never open the breaker the first time.
    private static var leastSuspects: Int { 20 }
    /// The share of suspects that opens it, in percent. A guess: lists that were never cleaned have some 10 %.
    private static var sharePercent: Int { 30 }
    /// Candidates of a small share wait no longer for more answers.
    private static var patience: Duration { .seconds(5) }
    /// How long nothing may be out before no more answers are expected.
    private static var idleTime: Duration { .seconds(1) }
    private static var shortestHold: Duration { .seconds(60) }
    private static var longestHold: Duration { .seconds(3_600) }

    private var answers = 0
    private var suspects = 0
    private var candidates: [Candidate] = []
    private var firstAt: ContinuousClock.Instant?
    private var lastAt: ContinuousClock.Instant?
    private var holds = 0
    private(set) var heldUntil: ContinuousClock.Instant?

    /// Answers that say nothing against their tokens.
    mutating func answered(_ count: Int) {
        answers += count
        while answers > 2 * Self.sample {
            answers /= 2
            suspects /= 2
        }
    }

    /// An answer that says that a token is dead, where a wrong setting would say the same.
    mutating func suspect(_ candidate: Candidate, now: ContinuousClock.Instant) {
        // What was still on its way when the channel was held would be judged as a few among none.
        if let heldUntil, now < heldUntil { return }
        answered(1)
        suspects += 1
        firstAt = firstAt ?? now
        lastAt = now
        candidates.append(candidate)
    }

    /// Decides about the candidates if it is time to; ask after each round of answers.
    ///
    /// - Parameters:
    ///   - isIdle: nothing is out.
    ///   - isLast: there will be no other round.
    mutating func judge(now: ContinuousClock.Instant, isIdle: Bool, isLast: Bool = false) -> Action {
        guard let firstAt, let lastAt, !candidates.isEmpty else { return .none }
        let isHigh = suspects * 100 >= answers * Self.sharePercent
        // Once it was held, the first answers that are no better hold it again.
        if isHigh, holds > 0 || suspects >= Self.leastSuspects { return hold(now: now) }
        let isQuiet = isLast || isIdle && now - lastAt >= Self.idleTime
        guard isQuiet || !isHigh && (answers >= Self.sample || now - firstAt >= Self.patience) else { return .none }
        let dead = candidates
        forgetCandidates()
        holds = 0
        heldUntil = nil
        return .disable(dead)
    }

    private mutating func hold(now: ContinuousClock.Instant) -> Action {
        let dropped = candidates.count
        forgetCandidates()
        answers = 0
        suspects = 0
        holds += 1
        var hold = Self.shortestHold
        for _ in 1..<holds where hold < Self.longestHold { hold *= 2 }
        let until = now + min(hold, Self.longestHold)
        heldUntil = until
        return .hold(until: until, dropped: dropped)
    }

    private mutating func forgetCandidates() {
        candidates = []
        firstAt = nil
        lastAt = nil
    }
}
