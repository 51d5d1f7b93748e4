/// Keeps a mistake of ours from disabling devices: a wrong environment, topic or project makes every token look dead.
///
/// Gathers what is said of tokens until it can be judged, and holds the channel when the share of suspects jumps. Whether
/// the devices are disabled is decided over all processes and for as long as the credential lives, by
/// `peal.judge_tokens`, to which the reports go. Pure: answers and the time come from outside.
struct DeadTokenBreaker<Candidate: Sendable>: Sendable {
    /// What was seen since the last report.
    struct Report: Sendable {
        /// Pushes that were accepted.
        var accepted = 0
        /// Devices whose tokens look dead, where a wrong setting would make them look so.
        var suspects: [Candidate] = []
        /// Devices whose tokens are called dead, where only a setting that never worked would make them look so.
        var others: [Candidate] = []
        /// Whether the suspects may be disabled; not where they made the channel be held.
        var mayDisableSuspects = true
    }

    /// What follows from the answers so far.
    enum Action: Sendable {
        case none
        /// Enough to be judged by.
        case report(Report)
        /// Too many suspects at once: hold the channel until the moment, disable none of them.
        case hold(until: ContinuousClock.Instant, Report)
    }

    /// So many answers are enough to judge by; older ones count less and less.
    private static var sample: Int { 200 }
    /// Fewer suspects than this never hold the channel the first time.
    private static var leastSuspects: Int { 20 }
    /// The share of suspects that holds it, in percent. A guess: lists that were never cleaned have some 10 %.
    private static var sharePercent: Int { 30 }
    /// Candidates of a small share wait no longer for more answers.
    private static var patience: Duration { .seconds(5) }
    /// So many candidates wait for nothing more.
    private static var mostCandidates: Int { 1_000 }
    /// How long nothing may be out before no more answers are expected.
    private static var idleTime: Duration { .seconds(1) }
    private static var shortestHold: Duration { .seconds(60) }
    private static var longestHold: Duration { .seconds(3_600) }
    /// How often a credential of which nothing bad is said is reported as good.
    private static var proofInterval: Duration { .seconds(30) }

    private var answers = 0
    private var suspects = 0
    private var pending = Report()
    private var firstAt: ContinuousClock.Instant?
    private var lastAt: ContinuousClock.Instant?
    private var reportedAt: ContinuousClock.Instant?
    private var holds = 0
    private(set) var heldUntil: ContinuousClock.Instant?

    /// Whether `judge` wants to know if anything is out.
    var hasCandidates: Bool { firstAt != nil }

    /// Whether it must not be forgotten: it holds its channel, or there is something to judge.
    func isAlarmed(now: ContinuousClock.Instant) -> Bool {
        hasCandidates || heldUntil.map { $0 > now } ?? false
    }

    /// Pushes that were accepted.
    mutating func accepted(_ count: Int) {
        pending.accepted += count
        answered(count)
    }

    /// An answer that says that a token is dead.
    /// - Parameter isSuspect: a wrong setting would give the same answer, whatever was accepted before.
    mutating func dead(_ candidate: Candidate, isSuspect: Bool, now: ContinuousClock.Instant) {
        if isSuspect {
            // What was still on its way when the channel was held would be judged as a few among none.
            if let heldUntil, now < heldUntil { return }
            suspects += 1
            pending.suspects.append(candidate)
        } else {
            pending.others.append(candidate)
        }
        answered(1)
        firstAt = firstAt ?? now
        lastAt = now
    }

    private mutating func answered(_ count: Int) {
        answers += count
        while answers > 2 * Self.sample {
            answers /= 2
            suspects /= 2
        }
    }

    /// Decides about what was seen if it is time to; ask after each round of answers.
    ///
    /// - Parameters:
    ///   - isIdle: nothing is out.
    ///   - isLast: there will be no other round.
    mutating func judge(now: ContinuousClock.Instant, isIdle: Bool, isLast: Bool = false) -> Action {
        guard let firstAt, let lastAt else { return reportProof(now: now) }
        let isHigh = suspects > 0 && suspects * 100 >= answers * Self.sharePercent
        // Once it was held, the first answers that are no better hold it again.
        if isHigh, holds > 0 || suspects >= Self.leastSuspects { return hold(now: now) }
        let isQuiet = isLast || isIdle && now - lastAt >= Self.idleTime
        let isFull = pending.suspects.count + pending.others.count >= Self.mostCandidates
        let isEnough = answers >= Self.sample || now - firstAt >= Self.patience
        guard isQuiet || isFull || !isHigh && isEnough else { return .none }
        holds = 0
        heldUntil = nil
        return .report(takeReport(now: now))
    }

    private mutating func reportProof(now: ContinuousClock.Instant) -> Action {
        guard pending.accepted > 0, reportedAt.map({ now - $0 >= Self.proofInterval }) ?? true else { return .none }
        return .report(takeReport(now: now))
    }

    private mutating func hold(now: ContinuousClock.Instant) -> Action {
        var report = takeReport(now: now)
        report.mayDisableSuspects = false
        answers = 0
        suspects = 0
        holds += 1
        var hold = Self.shortestHold
        for _ in 1..<holds where hold < Self.longestHold { hold *= 2 }
        let until = now + min(hold, Self.longestHold)
        heldUntil = until
        return .hold(until: until, report)
    }

    private mutating func takeReport(now: ContinuousClock.Instant) -> Report {
        defer {
            pending = Report()
            firstAt = nil
            lastAt = nil
            reportedAt = now
        }
        return pending
    }
}
