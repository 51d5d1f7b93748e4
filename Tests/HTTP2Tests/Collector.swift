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

    private struct State {
        var seen: [Seen] = []
        var chunks = 0
        var waiters: [(condition: @Sendable ([Seen]) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []
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

    func wait(until condition: @escaping @Sendable ([Seen]) -> Bool) async {
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if condition(state.seen) { return true }
                state.waiters.append((condition, continuation))
                return false
            }
            if isReady { continuation.resume() }
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
