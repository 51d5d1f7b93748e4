import Glibc
import Synchronization

/// Wall time as the simulator sees it: the machine's clock plus an offset that tests may move.
///
/// Used for the age of provider tokens, the expiry of access tokens and time stamps; delays use the monotonic clock.
package final class SimulatorClock: Sendable {
    private let offsetMilliseconds: Atomic<Int64>
    private let fixedMilliseconds: Int64?

    /// A clock that follows the machine's.
    package init() {
        offsetMilliseconds = Atomic(0)
        fixedMilliseconds = nil
    }

    /// A clock that stands still until it is advanced; UNIX milliseconds.
    package init(fixedAt unixMilliseconds: Int64) {
        offsetMilliseconds = Atomic(0)
        fixedMilliseconds = unixMilliseconds
    }

    /// Moves the clock; negative durations move it back.
    package func advance(by duration: Duration) {
        let parts = duration.components
        let milliseconds = parts.seconds * 1000 + parts.attoseconds / 1_000_000_000_000_000
        offsetMilliseconds.add(milliseconds, ordering: .sequentiallyConsistent)
    }

    /// Microseconds since 1970, UTC.
    package var unixMicroseconds: Int64 {
        let base: Int64
        if let fixedMilliseconds {
            base = fixedMilliseconds * 1000
        } else {
            var now = timespec()
            unsafe clock_gettime(CLOCK_REALTIME, &now)
            base = Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1000
        }
        return base + offsetMilliseconds.load(ordering: .sequentiallyConsistent) * 1000
    }

    /// Milliseconds since 1970, UTC.
    package var unixMilliseconds: Int64 { unixMicroseconds / 1000 }

    /// Whole seconds since 1970, UTC.
    package var unixSeconds: Int64 { unixMilliseconds / 1000 }
}

/// The monotonic clock in milliseconds; the time base of delays, limits and deadlines inside the loop.
func monotonicMilliseconds() -> Int64 {
    var now = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
}
