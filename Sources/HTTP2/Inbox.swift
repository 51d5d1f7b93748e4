internal import CLinux
internal import Glibc
internal import OpenSSL
internal import Synchronization

typealias SingleAnswer = CheckedContinuation<Result<Response, HTTP2Error>, Never>

// One call of `submit`: requests of a batch on their way to a pool.
struct Submit: Sendable {
    let batch: RequestBatch
    let tag: Int
    let selection: RequestSelection
    let pool: PoolID
    let single: SingleAnswer?
}

// What other threads ask of the loop.
enum LoopCommand: Sendable {
    case makePool(PoolID, PoolConfiguration)
    case setField(PoolID, PoolFields.Field)
    case submit(Submit)
    case cancel(tag: Int)
    case reportOverload(PoolID)
    case renewConnections(PoolID)
    case closePool(PoolID, within: Duration)
    case status(PoolID, CheckedContinuation<PoolStatus?, Never>)
    case resolved(connection: UInt64, ResolverAnswer)
    case stop(within: Duration, CheckedContinuation<Void, Never>?)
}

// The locked mailbox in front of a loop. The eventfd is written only when the mailbox was empty.
final class Inbox: Sendable {
    private struct State {
        var commands: [LoopCommand] = []
        var isClosed = false
    }

    let wakeDescriptor: Int32
    private let state = Mutex(State())

    init() throws(HTTP2Error) {
        wakeDescriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        guard wakeDescriptor >= 0 else {
            throw HTTP2Error(.systemFailed, "No eventfd for the HTTP/2 client: \(errorText(errno))")
        }
    }

    deinit {
        close(wakeDescriptor)
    }

    // False when the loop has ended: the command was not taken.
    func post(_ command: LoopCommand) -> Bool {
        let (isTaken, wasEmpty) = state.withLock { state in
            if state.isClosed { return (false, false) }
            state.commands.append(command)
            return (true, state.commands.count == 1)
        }
        if wasEmpty { wake() }
        return isTaken
    }

    // Swaps what has come for an empty array whose room is used again.
    func take(into commands: inout [LoopCommand]) {
        commands.removeAll(keepingCapacity: true)
        state.withLock { swap(&$0.commands, &commands) }
    }

    // Takes no more from now on; what is left is the caller's to answer.
    func closeAndTake() -> [LoopCommand] {
        state.withLock { state in
            state.isClosed = true
            defer { state.commands = [] }
            return state.commands
        }
    }

    func clearWake() {
        var count: UInt64 = 0
        unsafe withUnsafeMutableBytes(of: &count) { _ = unsafe read(wakeDescriptor, $0.baseAddress, 8) }
    }

    private func wake() {
        var one: UInt64 = 1
        // It cannot fail: the counter is far from its limit, and the descriptor is open as long as we are.
        unsafe withUnsafeBytes(of: &one) { _ = unsafe write(wakeDescriptor, $0.baseAddress, 8) }
    }
}

func errorText(_ code: Int32) -> String {
    unsafe String(cString: strerror(code))
}
