import HTTP2
import Synchronization

/// Gathers the completions of a client and lets tests wait for them. The suites' time limits bound the waits.
final class Collector: Sendable {
    struct Seen: Sendable {
        let tag: Int
        let index: Int
        let kind: Completion.Kind
        let status: Int
        let mayHaveBeenProcessed: Bool
        let body: [UInt8]
        let fields: [String?]
    }

    private struct Waiter {
        let number: Int
        let condition: @Sendable ([Seen]) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var seen: [Seen] = []
        var chunks = 0
        var waiters: [Waiter] = []
        var lastWaiter = 0
    }

    private let state = Mutex(State())

    var seen: [Seen] { state.withLock { $0.seen } }
    var chunks: Int { state.withLock { $0.chunks } }

    func take(_ chunk: CompletionChunk) {
        let seen = chunk.completions.map { completion in
            Seen(
                tag: completion.tag,
                index: completion.index,
                kind: completion.kind,
                status: completion.status,
                mayHaveBeenProcessed: completion.mayHaveBeenProcessed,
                body: chunk.body(of: completion),
                fields: (0..<4).map { chunk.field($0, of: completion) }
            )
        }
        let ready: [CheckedContinuation<Void, Never>] = state.withLock { state in
            state.seen += seen
            state.chunks += 1
            let all = state.seen
            let due = state.waiters.filter { $0.condition(all) }.map(\.continuation)
            state.waiters.removeAll { $0.condition(all) }
            return due
        }
        for continuation in ready { continuation.resume() }
    }

    /// Returns when the condition holds, or when the test is cancelled because its time is over.
    func wait(until condition: @escaping @Sendable ([Seen]) -> Bool) async {
        let number = state.withLock { state in
            state.lastWaiter += 1
            return state.lastWaiter
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isReady = state.withLock { state in
                    if Task.isCancelled || condition(state.seen) { return true }
                    let waiter = Waiter(number: number, condition: condition, continuation: continuation)
                    state.waiters.append(waiter)
                    return false
                }
                if isReady { continuation.resume() }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                let index = state.waiters.firstIndex { $0.number == number }
                return index.map { state.waiters.remove(at: $0) }
            }
            waiter?.continuation.resume()
        }
    }

    func wait(for count: Int) async -> [Seen] {
        await wait { $0.count >= count }
        return seen
    }
}

extension [Collector.Seen] {
    /// Every index of 0..<count came exactly once.
    func isEachOnce(_ count: Int) -> Bool {
        self.count == count && Set(map(\.index)) == Set(0..<count)
    }

    func with(_ kind: Completion.Kind) -> [Collector.Seen] {
        filter { $0.kind == kind }
    }
}
