import Glibc

/// Wall time. Durations within one process are measured with `ContinuousClock` instead.
package enum WallClock {
    /// A moment: microseconds since 1970-01-01 00:00 UTC.
    package struct Instant: Hashable, Sendable {
        package let microsecondsSinceEpoch: Int64

        package init(microsecondsSinceEpoch: Int64) {
            self.microsecondsSinceEpoch = microsecondsSinceEpoch
        }

        /// Stays at the ends of the range.
        package init(secondsSinceEpoch: Int64) {
            self.init(microsecondsSinceEpoch: Duration.seconds(secondsSinceEpoch).wholeMicroseconds)
        }

        /// Whole seconds since 1970, rounded down.
        package var secondsSinceEpoch: Int64 {
            let (seconds, rest) = microsecondsSinceEpoch.quotientAndRemainder(dividingBy: 1_000_000)
            return rest < 0 ? seconds - 1 : seconds
        }

        /// The time from `earlier` to this moment, negative if `earlier` is later. Stays at the ends of the range.
        package func duration(since earlier: Instant) -> Duration {
            let (time, overflow) = microsecondsSinceEpoch.subtractingReportingOverflow(earlier.microsecondsSinceEpoch)
            return .microseconds(overflow ? (self < earlier ? .min : .max) : time)
        }

        /// This moment moved by a duration, rounded down to microseconds. Stays at the ends of the range.
        package static func + (instant: Instant, duration: Duration) -> Instant {
            let (moved, overflow) = instant.microsecondsSinceEpoch.addingReportingOverflow(duration.wholeMicroseconds)
            guard overflow else { return Instant(microsecondsSinceEpoch: moved) }
            return Instant(microsecondsSinceEpoch: duration < .zero ? .min : .max)
        }

        package static func - (instant: Instant, duration: Duration) -> Instant {
            instant + (.zero - duration)
        }

        package static func - (later: Instant, earlier: Instant) -> Duration {
            later.duration(since: earlier)
        }
    }

    /// The system's wall time now. A vDSO call, about 30 ns.
    package static func now() -> Instant {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Instant(microsecondsSinceEpoch: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
    }
}

extension WallClock.Instant: Comparable {
    package static func < (left: Self, right: Self) -> Bool {
        left.microsecondsSinceEpoch < right.microsecondsSinceEpoch
    }
}

extension Duration {
    /// The duration in microseconds, rounded down; the ends of the range stand for what lies beyond.
    package var wholeMicroseconds: Int64 {
        let (seconds, attoseconds) = components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        let attosecondsPerMicrosecond: Int64 = 1_000_000_000_000
        var (rest, remainder) = attoseconds.quotientAndRemainder(dividingBy: attosecondsPerMicrosecond)
        if remainder < 0 { rest -= 1 }
        let (sum, sumOverflow) = scaled.addingReportingOverflow(rest)
        return sumOverflow ? (seconds < 0 ? .min : .max) : sum
    }

    /// The duration in milliseconds, rounded up, so that a wait of it never ends too early.
    package var wholeMillisecondsRoundedUp: Int64 {
        let microseconds = wholeMicroseconds
        guard microseconds > 0 else { return microseconds / 1000 }
        return microseconds / 1000 + (microseconds % 1000 == 0 ? 0 : 1)
    }
}
