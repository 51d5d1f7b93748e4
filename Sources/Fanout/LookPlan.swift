/// When a loop looks at all jobs that wait, and when only at those that came lately, which costs the same whatever old
/// snapshots keep alive. Pure: the moment is passed in.
struct LookPlan<Moment: InstantProtocol> where Moment.Duration == Duration {
    /// What counts as lately.
    private static var youngAge: Duration { .seconds(10) }
    /// Looks at all jobs may cost this share of a loop's time: one part in so many.
    private static var share: Int { 20 }

    private var nextFullLook: Moment

    /// The first look is at all jobs.
    init(now: Moment) {
        nextFullLook = now
    }

    /// How far back a look goes that begins now; nil: it is at all jobs.
    func age(at now: Moment) -> Duration? {
        now >= nextFullLook ? nil : Self.youngAge
    }

    /// A look at all jobs is over; the next comes after the interval, or later where looks take long.
    mutating func lookedAtAll(from start: Moment, to end: Moment, interval: Duration) {
        nextFullLook = end.advanced(by: max(interval, start.duration(to: end) * Self.share))
    }
}
