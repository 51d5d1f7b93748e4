/// How fast messages of a credential go out after its provider asked for less: half as fast as what it last took, and
/// from there faster again by the same share each second, until it asks for less once more. Pure: the time comes from outside.
///
/// Without a refusal there is no limit but the connections'. Streams alone are none: a provider that answers a refusal at
/// once is asked again at once.
struct SendingPace: Sendable {
    /// Messages a second that are always tried: one that gets through is what shows that more may be.
    private static let least = 1.0
    /// What the rate grows by in a second: it doubles in 30 s. A guess: Google asks for a minute from nothing to all.
    private static let growth = 0.023
    /// Refusals of one moment count once.
    private static let cutInterval: Duration = .seconds(1)
    /// A rate that was not refused for so long, while messages could go out, is no limit any more.
    private static let patience: Duration = .seconds(900)
    /// So much of a second may go out at once.
    private static let burst = 0.25
    /// How far back what was accepted is looked at.
    private static let window: Duration = .seconds(5)
    /// So many refusals of single devices, and not fewer than the messages that were accepted, are no matter of single devices.
    private static let manyDevices = 20

    private var rate: Double?
    private var allowance = 0.0
    private var filledAt: ContinuousClock.Instant?
    private var cutAt: ContinuousClock.Instant?
    private var restsUntil: ContinuousClock.Instant?
    private var begunAt: ContinuousClock.Instant?
    private var accepted = 0
    private var refusedDevices = 0
    private var former = (accepted: 0, span: Duration.zero)

    /// Whether there is a limit.
    var isLimited: Bool { rate != nil }
    /// Messages a second, or nil for no limit.
    var messagesPerSecond: Double? { rate }

    /// The provider took messages.
    mutating func accepted(_ count: Int, now: ContinuousClock.Instant) {
        turnWindow(now: now)
        accepted += count
    }

    /// The provider asks for less of everything. True if this made it slower, false if it was said a moment ago.
    mutating func refused(now: ContinuousClock.Instant) -> Bool {
        turnWindow(now: now)
        if let cutAt, now - cutAt < Self.cutInterval { return false }
        if let restsUntil, now < restsUntil { return false }
        cutAt = now
        rate = max(Self.least, (rate.map { min($0, takenRate(now: now)) } ?? takenRate(now: now)) / 2)
        allowance = 0
        filledAt = now
        accepted = 0
        former = (0, .zero)
        begunAt = now
        return true
    }

    /// The provider asks for less for one device. True if that is said of so many that it made everything slower.
    mutating func refusedForDevice(now: ContinuousClock.Instant) -> Bool {
        turnWindow(now: now)
        refusedDevices += 1
        guard refusedDevices >= Self.manyDevices, refusedDevices >= accepted else { return false }
        refusedDevices = 0
        return refused(now: now)
    }

    /// How many messages may go out now.
    mutating func allowed(now: ContinuousClock.Instant) -> Int {
        refill(now: now)
        return rate == nil ? .max : Int(allowance)
    }

    /// So many of the messages that were allowed go out.
    mutating func spend(_ count: Int) {
        allowance -= Double(count)
    }

    /// Nothing is sent until the moment: until then there is nothing to speed up for.
    mutating func rest(until moment: ContinuousClock.Instant) {
        restsUntil = moment
        filledAt = moment
        begunAt = moment
    }

    private mutating func refill(now: ContinuousClock.Instant) {
        guard let present = rate, let filledAt, now > filledAt else { return }
        if let cutAt, now - max(cutAt, restsUntil ?? cutAt) >= Self.patience {
            rate = nil
            return
        }
        let seconds = (now - filledAt) / .seconds(1)
        allowance = min(max(1, present * Self.burst), allowance + present * seconds)
        // A time in which nobody asked shows no more than that nobody asked.
        rate = present * (1 + Self.growth * min(1, seconds))
        self.filledAt = now
    }

    private mutating func turnWindow(now: ContinuousClock.Instant) {
        guard let begun = begunAt else {
            begunAt = now
            return
        }
        guard now - begun >= Self.window else { return }
        // A window that long was mostly idle: what was accepted in it says nothing of what is taken now.
        former = now - begun >= Self.window * 2 ? (0, .zero) : (accepted, now - begun)
        begunAt = now
        accepted = 0
        refusedDevices = 0
    }

    /// Messages a second that were accepted of late.
    private func takenRate(now: ContinuousClock.Instant) -> Double {
        let span = former.span + (begunAt.map { now - $0 } ?? .zero)
        return Double(former.accepted + accepted) / max(1, span / .seconds(1))
    }
}
