import CPostgres
import Glibc
import Synchronization

/// Wakes a thread that waits in poll(2) because the task it works for was cancelled.
///
/// One exchange with the server arms it and disarms it; a cancellation that comes later does nothing.
final class Interrupt: Sendable {
    private struct State {
        var generation: UInt64 = 0
        var isArmed = false
        var isFired = false
    }

    private let wakeUp: WakePipe
    private let state = Mutex(State())

    init() throws(PostgresError) {
        wakeUp = try WakePipe()
    }

    /// Becomes readable when it fires.
    var fileDescriptor: Int32 { wakeUp.readEnd }

    var isFired: Bool { state.withLock { $0.isFired } }

    /// Begins an exchange and returns its number, by which alone it can be interrupted.
    func arm() -> UInt64 {
        state.withLock { state in
            state.generation += 1
            state.isArmed = true
            return state.generation
        }
    }

    func fire(_ generation: UInt64) {
        state.withLock { state in
            guard state.isArmed, state.generation == generation, !state.isFired else { return }
            state.isFired = true
            wakeUp.signal()
        }
    }

    func disarm() {
        state.withLock { state in
            if state.isFired { wakeUp.clear() }
            state.isArmed = false
            state.isFired = false
        }
    }
}

/// A pipe whose one byte tells a waiting thread that something happened.
final class WakePipe: Sendable {
    let readEnd: Int32
    private let writeEnd: Int32

    init() throws(PostgresError) {
        var ends: [2 of Int32] = [-1, -1]
        var span = ends.mutableSpan
        let result = unsafe span.withUnsafeMutableBufferPointer { unsafe pipe2($0.baseAddress, O_CLOEXEC | O_NONBLOCK) }
        guard result == 0 else {
            throw PostgresError(
                .connection,
                activity: "open a pipe",
                message: "\(SystemError.text(errno)); raise the limit of open files"
            )
        }
        readEnd = ends[0]
        writeEnd = ends[1]
    }

    deinit {
        close(writeEnd)
        close(readEnd)
    }

    func signal() {
        var byte: UInt8 = 1
        while unsafe write(writeEnd, &byte, 1) < 0 && errno == EINTR {}
    }

    func clear() {
        var bytes: [8 of UInt8] = .init(repeating: 0)
        var span = bytes.mutableSpan
        while unsafe span.withUnsafeMutableBytes({ unsafe read(readEnd, $0.baseAddress, $0.count) }) > 0 {}
    }
}

/// The C library's words for an error number.
enum SystemError {
    static func text(_ number: Int32) -> String {
        unsafe String(cString: strerror(number))
    }
}
