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

    /// Answers that are looked at together.
    private static var sample: Int { 200 }
    /// Fewer candidates than this never open the breaker.
    private static var leastCandidates: Int { 20 }
    /// The share of candidates that opens it, in percent. A guess: lists that were never cleaned have some 10 %.
    private static var sharePercent: Int { 30 }
    /// Candidates wait no longer for more answers.
    private static var patience: Duration { .seconds(5) }
    private static var shortestHold: Duration { .seconds(60) }
    private static var longestHold: Duration { .seconds(3_600) }

    private var answers = 0
    private var candidates: [Candidate] = []
    private var firstAt: ContinuousClock.Instant?
    private var holds = 0
    private(set) var heldUntil: ContinuousClock.Instant?

    /// Whether candidates wait for a verdict.
    var isWaiting: Bool { !candidates.isEmpty }

    /// Whether the channel is held now.
    func isHeld(at now: ContinuousClock.Instant) -> Bool {
        heldUntil.map { now < $0 } ?? false
    }

    /// Answers that say nothing against their tokens. Without a candidate there is nothing to judge: the past does not
    /// excuse what comes.
    mutating func answered(_ count: Int) {
        if !candidates.isEmpty { answers += count }
    }

    /// An answer that says that a token is dead, where a wrong setting would say the same.
    mutating func suspect(_ candidate: Candidate, now: ContinuousClock.Instant) {
        // What was still on its way when the channel was held would be judged as a few among none.
        guard !isHeld(at: now) else { return }
        answers += 1
        if firstAt == nil { firstAt = now }
        candidates.append(candidate)
    }

    /// Decides about the candidates if it is time to; ask after each round of answers.
    ///
    /// - Parameter isIdle: nothing more is out, so no more answers will come.
    mutating func judge(now: ContinuousClock.Instant, isIdle: Bool) -> Action {
        guard let firstAt, !candidates.isEmpty else { return .none }
        if candidates.count >= Self.leastCandidates, candidates.count * 100 >= answers * Self.sharePercent {
            let dropped = candidates.count
            clear()
            holds += 1
            var hold = Self.shortestHold
            for _ in 1..<holds where hold < Self.longestHold { hold *= 2 }
            let until = now + min(hold, Self.longestHold)
            heldUntil = until
            return .hold(until: until, dropped: dropped)
        }
        guard isIdle || answers >= Self.sample || now - firstAt >= Self.patience else { return .none }
        let dead = candidates
        clear()
        holds = 0
        return .disable(dead)
    }

    private mutating func clear() {
        candidates = []
        answers = 0
        firstAt = nil
    }
}
