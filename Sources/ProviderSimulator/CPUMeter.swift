import Glibc
import Synchronization

/// CPU time that the simulator's thread has used, as it last told: what a benchmark subtracts from its own process.
final class CPUMeter: Sendable {
    private let nanoseconds = Atomic<Int64>(0)

    /// Takes the time of the thread that calls.
    func update() {
        var time = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        nanoseconds.store(Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec), ordering: .relaxed)
    }

    var seconds: Double { Double(nanoseconds.load(ordering: .relaxed)) / 1_000_000_000 }
}
