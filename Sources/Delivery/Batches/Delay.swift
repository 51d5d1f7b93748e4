import PushCore

/// Recipients of a batch that are set aside together: until the same moment, for the same attempt and reason.
struct Delay: Sendable {
    /// When they go on.
    enum Due: Hashable, Sendable {
        /// So long from now.
        case after(Duration)
        /// When their job is resumed.
        case held
    }

    let due: Due
    let attempt: Int
    let reason: ReasonTable.Index
    /// Recipients below it may have been sent, and are `unknown` if they cannot be sent again.
    let sentTo: Int
    /// Bit i unset: recipient i of the slice is in it.
    var done: Bitmap

    /// What comes back so long before its expiry can still go out.
    private static let lastChance: Duration = .seconds(1)

    /// How long recipients wait that are set aside as a whole: as wished, but back for a last chance before their expiry.
    /// A batch that comes back for it is not set aside again.
    ///
    /// - Parameter minimum: nothing can go out before that.
    /// - Returns: nil if they can only expire.
    static func wait(_ wished: Duration, atLeast minimum: Duration, timeLeft: Duration) -> Duration? {
        let wait = max(minimum, min(wished, latestWait(timeLeft: timeLeft)))
        return wait >= .seconds(1) && wait < timeLeft ? wait : nil
    }

    /// Whole seconds, so that what is set aside one after the other stays together.
    static func latestWait(timeLeft: Duration) -> Duration {
        .seconds((timeLeft - lastChance).components.seconds)
    }
}

/// Gathers the recipients of a batch that are set aside, in few groups: each becomes a batch of its own again.
struct Delays: Sendable {
    private(set) var groups: [Delay] = []

    var isEmpty: Bool { groups.isEmpty }

    /// Adds a recipient. Waits are rounded up to steps of half their size at least, so that a batch does not crumble into
    /// single messages after a few rounds; to smaller ones where that would take the last chance before the expiry.
    mutating func add(
        _ index: Int,
        size: Int,
        due: Delay.Due,
        timeLeft: Duration,
        attempt: Int,
        reason: ReasonTable.Index,
        sentTo: Int
    ) {
        let due = Self.bucket(due, latest: Delay.latestWait(timeLeft: timeLeft))
        let present = groups.firstIndex {
            $0.due == due && $0.attempt == attempt && $0.reason == reason && $0.sentTo == sentTo
        }
        if let present {
            groups[present].done.remove(index)
            return
        }
        var done = Bitmap(count: size, isSet: true)
        done.remove(index)
        groups.append(Delay(due: due, attempt: attempt, reason: reason, sentTo: sentTo, done: done))
    }

    private static func bucket(_ due: Delay.Due, latest: Duration) -> Delay.Due {
        guard case .after(let wait) = due else { return due }
        let milliseconds = wait.wholeMillisecondsRoundedUp
        var step: Int64 = 1_000
        while step * 4 <= milliseconds { step *= 2 }
        while true {
            let rounded = Duration.milliseconds((milliseconds + step - 1) / step * step)
            if step == 1_000 || rounded <= latest { return .after(rounded) }
            step /= 2
        }
    }
}
