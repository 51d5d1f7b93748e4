import Glibc
import Synchronization

/// Lets a command that changes things step by step stop between two steps when somebody presses Ctrl-C.
package enum Interruption {
    private static let caught = Atomic<Int32>(0)

    /// From now on the first SIGINT or SIGTERM is only noted. The second one ends the process as usual.
    package static func catchSignals() {
        // Touched here, so that the handler finds it initialised.
        caught.store(0, ordering: .relaxed)
        for number in [SIGINT, SIGTERM] { signal(number) { Interruption.noteSignal($0) } }
    }

    /// Throws status 130 or 143 when a signal was noted, saying what that means for the work.
    package static func check(_ consequence: String) throws(CommandError) {
        if caught.load(ordering: .relaxed) == 0 { takePendingSignal() }
        let number = caught.load(ordering: .relaxed)
        guard number != 0 else { return }
        throw CommandError(number == SIGTERM ? .terminated : .interrupted, "stopped", at: consequence)
    }

    /// Does some work, and cancels it when a signal is noted: what it then throws is up to it.
    package static func cancelling<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let task = Task { try await work() }
        let watch = Task {
            while caught.load(ordering: .relaxed) == 0 { try await Task.sleep(for: .milliseconds(50)) }
            task.cancel()
        }
        defer { watch.cancel() }
        return try await withTaskCancellationHandler {
            try await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// A signal that has come may wait for another thread, which a busy machine has not let run yet. Whoever lifts a block
    /// gets what is pending before the call returns (POSIX, pthread_sigmask).
    private static func takePendingSignal() {
        var ours = sigset_t()
        var former = sigset_t()
        unsafe sigemptyset(&ours)
        for number in [SIGINT, SIGTERM] { unsafe sigaddset(&ours, number) }
        unsafe pthread_sigmask(SIG_BLOCK, &ours, &former)
        unsafe pthread_sigmask(SIG_SETMASK, &former, nil)
    }

    private static func noteSignal(_ number: Int32) {
        guard caught.exchange(number, ordering: .relaxed) != 0 else { return }
        signal(number, SIG_DFL)
        raise(number)
    }
}
