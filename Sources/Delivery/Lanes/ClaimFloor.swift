/// The lowest tag that claims look at: what the lane's clock showed a while ago.
///
/// Rows below it were claimed and are dead to the index, but stay in its way while anyone holds an old snapshot. What is
/// left there, such as an expired lease, is found by the claim that now and then looks below the floor.
struct ClaimFloor: Sendable {
    private struct Sample {
        let at: ContinuousClock.Instant
        let clock: Int64
    }

    private let lag: Duration
    private let sweepInterval: Duration
    private var samples: [Sample] = []
    private var sweptAt: ContinuousClock.Instant?
    private var foundHiddenAt: ContinuousClock.Instant?

    /// No floor at all.
    static let none = Int64.min

    init(lag: Duration, sweepInterval: Duration) {
        self.lag = lag
        self.sweepInterval = sweepInterval
    }

    /// Notes what the lane's clock shows.
    mutating func note(clock: Int64, now: ContinuousClock.Instant) {
        // A few samples are enough: the floor may be a little lower than it could be.
        if let last = samples.last, now - last.at < lag / 8 { return }
        samples.append(Sample(at: now, clock: clock))
        while samples.count > 1, now - samples[1].at >= lag { samples.removeFirst() }
    }

    /// The floor of a claim that is made now. Every so often there is none.
    mutating func floor(now: ContinuousClock.Instant) -> Int64 {
        let isBehind = foundHiddenAt.map { now - $0 < sweepInterval } ?? false
        if isBehind || sweptAt.map({ now - $0 >= sweepInterval }) ?? true {
            sweptAt = now
            return Self.none
        }
        return usual(now: now)
    }

    /// Whether a claim made now finds a tag only where it has no floor.
    func hides(_ tag: Int64, now: ContinuousClock.Instant) -> Bool { tag < usual(now: now) }

    private func usual(now: ContinuousClock.Instant) -> Int64 {
        guard let oldest = samples.first, now - oldest.at >= lag else { return Self.none }
        return oldest.clock
    }

    /// Notes whether a claim found what is hidden from others: a batch that had outlived its lease, or was committed long
    /// after it got its tag. There are likely more, so claims have no floor until one of them, that looked at all apps, finds
    /// no other, or for as long as a sweep rests.
    mutating func note(foundHidden: Bool, from floor: Int64, ofAllApps: Bool, now: ContinuousClock.Instant) {
        if foundHidden {
            foundHiddenAt = now
        } else if floor == Self.none, ofAllApps {
            foundHiddenAt = nil
        }
    }
}
