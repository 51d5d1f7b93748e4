/// A bucket of permits on the simulator's clock, which tests move: full at first, refilled in steps, never above full.
struct TokenBucket {
    private let capacity: Int
    private let refill: Int
    private let intervalMilliseconds: Int64
    private var left: Int
    private var refilledAt: Int64

    /// - Parameters:
    ///   - refill: how many permits come back after each interval; nil: all.
    ///   - now: UNIX milliseconds of the simulator's clock.
    init(capacity: Int, refill: Int? = nil, intervalMilliseconds: Int64, now: Int64) {
        self.capacity = capacity
        self.refill = refill ?? capacity
        self.intervalMilliseconds = intervalMilliseconds
        left = capacity
        refilledAt = now
    }

    /// Whether nothing was taken lately: such a bucket may be forgotten.
    mutating func isFull(now: Int64) -> Bool {
        fill(now)
        return left == capacity
    }

    /// Whether there is a permit.
    mutating func hasPermit(now: Int64) -> Bool {
        fill(now)
        return left > 0
    }

    /// Takes a permit; false when there is none.
    mutating func take(now: Int64) -> Bool {
        guard hasPermit(now: now) else { return false }
        left -= 1
        return true
    }

    private mutating func fill(_ now: Int64) {
        let steps = (now - refilledAt) / intervalMilliseconds
        guard steps > 0 else { return }
        refilledAt += steps * intervalMilliseconds
        left = Int(min(Int64(capacity), Int64(left) + min(steps, Int64(capacity)) * Int64(refill)))
    }
}
