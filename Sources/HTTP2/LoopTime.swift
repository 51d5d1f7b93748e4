internal import Glibc

// A moment of the monotonic clock as the event loop keeps it: read once per turn, 8 bytes, no conversions.
struct LoopTime: Comparable, Hashable {
    var nanoseconds: Int64

    static let never = LoopTime(nanoseconds: .max)
    static let longAgo = LoopTime(nanoseconds: 0)

    static func now() -> LoopTime {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return LoopTime(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    static func < (left: LoopTime, right: LoopTime) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    static func + (time: LoopTime, wait: Duration) -> LoopTime {
        time.after(nanoseconds: wait.wholeNanoseconds)
    }

    func after(nanoseconds wait: Int64) -> LoopTime {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(wait)
        return overflow ? .never : LoopTime(nanoseconds: sum)
    }
}

extension Duration {
    // The ends of the range stand for what lies beyond.
    var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflow { return seconds < 0 ? .min : .max }
        let (sum, sumOverflow) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
        return sumOverflow ? (seconds < 0 ? .min : .max) : sum
    }
}
