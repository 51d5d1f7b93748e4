import Synchronization

/// Wakes the one task that waits for it. A wake-up while nobody waits is kept for the next wait; several count as one.
///
/// Its timer is a task of its own, not an `async let`: in the runtime of Swift 6.3 a child of an `async let` reads its own
/// memory once more after it has told its parent that it is done, and a parent that goes on at that moment has freed it.
/// That ended a worker by a bad pointer on a loaded machine. So the sources have no `async let`.
package final class WakeSignal: Sendable {
    private struct State {
        var isPending = false
        var waitNumber = 0
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    package init() {}

    /// Ends the wait, or the next one. Never blocks; callable from any thread.
    package func wake() {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard let waiter = state.waiter else {
                state.isPending = true
                return nil
            }
            state.waiter = nil
            return waiter
        }
        waiter?.resume()
    }

    /// Waits until somebody wakes it, the time is over, or the task is cancelled. One task at a time.
    package func wait(atMost limit: Duration, clock: some Clock<Duration>) async {
        let number = state.withLock { state -> Int? in
            guard !state.isPending else {
                state.isPending = false
                return nil
            }
            guard limit > .zero else { return nil }
            state.waitNumber += 1
            return state.waitNumber
        }
        guard let number else { return }
        let timer = Task { await expire(number, after: limit, clock: clock) }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in begin(number, continuation) }
        } onCancel: {
            end(number)
        }
        timer.cancel()
    }

    /// The same, until a moment.
    package func wait(until moment: ContinuousClock.Instant) async {
        await wait(atMost: max(.zero, moment - .now), clock: .continuous)
    }

    private func expire(_ number: Int, after limit: Duration, clock: some Clock<Duration>) async {
        do {
            try await clock.sleep(for: limit)
        } catch {
            return  // the wait is over already
        }
        end(number)
    }

    /// Parks the waiter, unless the wait ended before it came to this.
    private func begin(_ number: Int, _ continuation: CheckedContinuation<Void, Never>) {
        let isOver = state.withLock { state -> Bool in
            precondition(state.waiter == nil, "a wake signal has one waiter at a time")
            if state.isPending || state.waitNumber != number {
                state.isPending = false
                return true
            }
            state.waiter = continuation
            return false
        }
        if isOver { continuation.resume() }
    }

    /// Ends the wait of that number, if it still goes on.
    private func end(_ number: Int) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waitNumber == number else { return nil }
            state.waitNumber += 1
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }
}
