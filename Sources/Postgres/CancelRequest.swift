import CPostgres
import Synchronization
import Threads

/// Asks the server to cancel what a connection runs, on a thread of its own: libpq's call blocks and has no time limit.
final class CancelRequest: Sendable {
    private let finished: WakePipe

    /// Becomes readable when the server has taken the request, or it failed.
    var fileDescriptor: Int32 { finished.readEnd }

    /// Sends the request. Nil when the connection is too broken to make one, or there is no thread.
    init?(for connection: OpaquePointer) {
        guard let pipe = try? WakePipe(), let cancel = unsafe PQgetCancel(connection) else { return nil }
        finished = pipe
        let handle = unsafe CancelHandle(cancel)
        let code = Thread.start(name: "peal-pg-cancel") {
            handle.send()
            pipe.signal()
        }
        guard code == 0 else { return nil }
    }
}

/// Owns libpq's copy of what a cancel request needs. Used by one thread, the one it is handed to.
@safe private final class CancelHandle: @unchecked Sendable {
    private let cancel: OpaquePointer

    init(_ cancel: OpaquePointer) {
        unsafe self.cancel = unsafe cancel
    }

    deinit {
        unsafe PQfreeCancel(cancel)
    }

    /// A refusal needs no handling: the statement then runs into its grace and the connection is cut off.
    func send() {
        var message: [256 of CChar] = .init(repeating: 0)
        var span = message.mutableSpan
        _ = unsafe span.withUnsafeMutableBufferPointer { unsafe PQcancel(cancel, $0.baseAddress, Int32($0.count)) }
    }
}
