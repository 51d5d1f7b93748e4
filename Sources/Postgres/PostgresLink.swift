import CPostgres
import Glibc
import PushCore
import Telemetry

/// The one owner of a libpq connection. Its calls block the thread that makes them, always up to a deadline only.
///
/// Used by one actor on one dedicated thread. libpq runs in non-blocking mode and all waiting is in `wait`.
@safe final class PostgresLink {
    let configuration: PostgresConfiguration
    let interrupt: Interrupt
    /// libpq's connection; nil before it is made and after it is closed.
    private(set) var connection: OpaquePointer?

    init(_ configuration: PostgresConfiguration) throws(PostgresError) {
        self.configuration = configuration
        interrupt = try Interrupt()
    }

    deinit {
        if let connection = unsafe connection { unsafe PQfinish(connection) }
    }

    /// Closes the connection. Never waits for the server.
    func close() {
        guard let connection = unsafe connection else { return }
        unsafe PQfinish(connection)
        unsafe self.connection = nil
    }

    /// Takes over a connection that has just been made.
    func adopt(_ connection: OpaquePointer) {
        close()
        unsafe self.connection = unsafe connection
    }

    /// Whether the connection can be used, as far as is known without asking the server.
    var isOpen: Bool {
        guard let connection = unsafe connection else { return false }
        return unsafe PQstatus(connection) == CONNECTION_OK
    }

    var isInTransaction: Bool {
        guard let connection = unsafe connection else { return false }
        return unsafe PQtransactionStatus(connection) != PQTRANS_IDLE
    }

    /// The connection, or an error that says it is closed.
    func opened(_ exchange: Exchange) throws(PostgresError) -> OpaquePointer {
        guard let connection = unsafe connection else {
            throw exchange.error(.connection, "the connection is closed")
        }
        return unsafe connection
    }

    /// Waits for the socket, up to the deadline of the exchange, and returns what it is ready for.
    ///
    /// When the time is over or the task is cancelled the server is asked to cancel, and the wait goes on for the grace;
    /// when that is over too the connection is closed and this throws.
    func wait(for events: Int32, _ exchange: inout Exchange) throws(PostgresError) -> Int32 {
        while true {
            let connection = unsafe try opened(exchange)
            let wake = Poll.wait(
                unsafe PQsocket(connection),
                events: events,
                interruptedBy: exchange.stop == nil ? interrupt.fileDescriptor : -1,
                until: exchange.deadline
            )
            switch wake {
            case .ready(let ready): return ready
            case .interrupted: try stop(&exchange, .cancelled)
            case .deadline: try stop(&exchange, .deadline)
            case .failed(let number):
                close()
                throw exchange.error(.connection, "waiting for the server failed: \(SystemError.text(number))")
            }
        }
    }

    private func stop(_ exchange: inout Exchange, _ cause: Exchange.Stop) throws(PostgresError) {
        if let earlier = exchange.stop {
            close()
            throw exchange.stopError(earlier, cutOff: true)
        }
        let connection = unsafe try opened(exchange)
        exchange.stop = cause
        exchange.deadline = .now + configuration.cancelGrace
        exchange.cancelRequest = unsafe CancelRequest(for: connection)
        guard exchange.cancelRequest == nil else { return }
        close()
        throw exchange.stopError(cause, cutOff: true)
    }

    /// Waits until a cancel request has been taken, so that it cannot hit the next statement.
    func settle(_ exchange: Exchange) {
        guard let request = exchange.cancelRequest, unsafe connection != nil else { return }
        let wake = Poll.wait(request.fileDescriptor, events: POLLIN, interruptedBy: -1, until: exchange.deadline)
        if case .ready = wake { return }
        close()
    }
}

/// poll(2) for one descriptor, a second one that interrupts, and a deadline.
enum Poll {
    enum Wake {
        case ready(Int32)
        case interrupted
        case deadline
        case failed(Int32)
    }

    static func wait(
        _ descriptor: Int32,
        events: Int32,
        interruptedBy interrupt: Int32,
        until deadline: ContinuousClock.Instant
    ) -> Wake {
        while true {
            let remaining = (deadline - .now).wholeMillisecondsRoundedUp
            guard remaining > 0 else { return .deadline }
            var polled: [2 of pollfd] = [
                pollfd(fd: descriptor, events: Int16(truncatingIfNeeded: events), revents: 0),
                pollfd(fd: interrupt, events: Int16(truncatingIfNeeded: POLLIN), revents: 0),
            ]
            var span = polled.mutableSpan
            let count = unsafe span.withUnsafeMutableBufferPointer {
                unsafe poll($0.baseAddress, 2, Int32(clamping: remaining))
            }
            if count < 0 && errno != EINTR { return .failed(errno) }
            guard count > 0 else { continue }
            if polled[1].revents != 0 { return .interrupted }
            return .ready(Int32(polled[0].revents))
        }
    }
}
