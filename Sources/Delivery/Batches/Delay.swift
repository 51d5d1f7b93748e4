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
}

/// Gathers the recipients of a batch that are set aside, in few groups: each becomes a batch of its own again.
struct Delays: Sendable {
    private(set) var groups: [Delay] = []

    var isEmpty: Bool { groups.isEmpty }

    /// Adds a recipient. Waits are rounded up to steps of half their size at least, so that a batch does not crumble into
    /// single messages after a few rounds.
    mutating func add(
        _ index: Int,
        size: Int,
        due: Delay.Due,
        attempt: Int,
        reason: ReasonTable.Index,
        sentTo: Int
    ) {
        let due = Self.bucket(due)
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

    private static func bucket(_ due: Delay.Due) -> Delay.Due {
        guard case .after(let wait) = due else { return due }
        let milliseconds = wait.wholeMillisecondsRoundedUp
        var step: Int64 = 1_000
        while step * 4 <= milliseconds { step *= 2 }
        return .after(.milliseconds((milliseconds + step - 1) / step * step))
    }
}
