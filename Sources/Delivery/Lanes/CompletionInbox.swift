import HTTP2
import PushCore
import Synchronization

/// Where the client's thread puts completions and the lane's worker takes them.
///
/// Its size is bounded by the messages that are out.
final class CompletionInbox: Sendable {
    private struct State {
        var chunks: [CompletionChunk] = []
        var count = 0
    }

    private let state = Mutex(State())
    private let wakeCount: Int
    /// Raised when enough has come to be worth a wake-up; fewer are found at the next look.
    let signal = WakeSignal()

    init(wakeCount: Int) {
        self.wakeCount = wakeCount
    }

    /// Called on the client's thread.
    func put(_ chunk: CompletionChunk) {
        // A refused credential is looked into before more is sent with it.
        let isUrgent = chunk.completions.contains { $0.status == 401 || $0.status == 403 }
        let isDue = state.withLock { state in
            let before = state.count
            state.chunks.append(chunk)
            state.count += chunk.completions.count
            return before < wakeCount && state.count >= wakeCount
        }
        if isDue || isUrgent { signal.wake() }
    }

    /// Swaps what has come for an empty array whose room is used again.
    func take(into chunks: inout [CompletionChunk]) {
        chunks.removeAll(keepingCapacity: true)
        state.withLock { state in
            swap(&state.chunks, &chunks)
            state.count = 0
        }
    }
}
