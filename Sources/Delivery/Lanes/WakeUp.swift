import Synchronization

/// A flag that anyone may raise and one task waits for. Raising it before the wait is not lost.
final class WakeUp: Sendable {
    private struct State {
        var isRaised = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Ends the wait, or the next one.
    func raise() {
        let waiter = state.withLock { state in
            state.isRaised = true
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Waits until the flag is raised, the moment has come, or the task is cancelled; lowers the flag.
    func wait(until moment: ContinuousClock.Instant) async {
        if lower() || ContinuousClock.now >= moment { return }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.waitForFlag() }
            group.addTask { try? await Task.sleep(until: moment, clock: .continuous) }
            await group.next()
            group.cancelAll()
        }
        _ = lower()
    }

    private func lower() -> Bool {
        state.withLock { state in
            defer { state.isRaised = false }
            return state.isRaised
        }
    }

    private func waitForFlag() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.isRaised || Task.isCancelled { return true }
                    precondition(state.waiter == nil, "one task waits at a time")
                    state.waiter = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume()
        }
    }
}
