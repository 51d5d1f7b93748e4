import CPostgres
import Glibc
import PushCore
import Telemetry

// Connecting: one host after the other, each with its own time.
extension PostgresLink {
    /// Connects to the first host that accepts. Name resolution alone is bounded by the resolver's own limits.
    func connect() throws(PostgresError) {
        var failures: [String] = []
        for host in try HostList.parse(configuration.connectionString) {
            do throws(PostgresError) {
                try connect(to: host)
                return
            } catch {
                if error.code == .cancelled { throw error }
                failures.append(error.message)
            }
        }
        throw PostgresError(.connection, activity: "connect", message: failures.joined(separator: "; "))
    }

    private func connect(to host: PostgresHost) throws(PostgresError) {
        let exchange = Exchange("connect", within: configuration.connectTimeout)
        guard let connection = unsafe start(host) else { throw exchange.error(.connection, "out of memory") }
        unsafe adopt(connection)
        do throws(PostgresError) {
            try unsafe finish(connection, exchange)
        } catch {
            close()
            throw error
        }
        unsafe PQsetnonblocking(connection, 1)
        unsafe PQsetNoticeReceiver(connection, receiveNotice, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Drives libpq's state machine until it is connected.
    private func finish(_ connection: OpaquePointer, _ exchange: Exchange) throws(PostgresError) {
        var events = POLLOUT
        while unsafe PQstatus(connection) != CONNECTION_BAD {
            let wake = Poll.wait(
                unsafe PQsocket(connection),
                events: Int32(events),
                interruptedBy: interrupt.fileDescriptor,
                until: exchange.deadline
            )
            switch wake {
            case .ready: break
            case .interrupted: throw exchange.stopError(.cancelled, cutOff: false)
            case .deadline:
                throw exchange.error(.connection, "\(unsafe place(of: connection)) did not answer in time")
            case .failed(let number):
                throw exchange.error(.connection, "waiting failed: \(SystemError.text(number))")
            }
            switch unsafe PQconnectPoll(connection) {
            case PGRES_POLLING_OK: return
            case PGRES_POLLING_WRITING: events = POLLOUT
            case PGRES_POLLING_READING: events = POLLIN
            default: throw exchange.error(.connection, unsafe lastMessage(connection))
            }
        }
        throw exchange.error(.connection, unsafe lastMessage(connection))
    }

    private func place(of connection: OpaquePointer) -> String {
        let host = unsafe PQhost(connection).map { unsafe String(cString: $0) } ?? "the server"
        let port = unsafe PQport(connection).map { unsafe String(cString: $0) } ?? ""
        return "\(host):\(port)"
    }

    /// What stands before `dbname` gives way to the connection string, what stands after it does not.
    private func start(_ host: PostgresHost) -> OpaquePointer? {
        var settings: [(keyword: String, value: String)] = [
            ("fallback_application_name", configuration.applicationName),
            ("client_encoding", "UTF8"),
            ("keepalives_idle", "10"),
            ("keepalives_interval", "5"),
            ("keepalives_count", "3"),
            // A dead peer is noticed while we send, too; while connecting, our own deadline comes first.
            ("tcp_user_timeout", "15000"),
        ]
        if configuration.requiresWritableServer { settings.append(("target_session_attrs", "read-write")) }
        settings.append(("dbname", configuration.connectionString))
        settings += [("host", host.host), ("hostaddr", host.address), ("port", host.port)]
        return withCStrings(settings.map(\.keyword)) { keywords in
            withCStrings(settings.map(\.value)) { values in
                unsafe PQconnectStartParams(keywords.constant, values.constant, 1)
            }
        }
    }
}

extension UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
    /// The same list for a function that promises not to write.
    fileprivate var constant: UnsafePointer<UnsafePointer<CChar>?> {
        unsafe UnsafeRawPointer(self).assumingMemoryBound(to: UnsafePointer<CChar>?.self)
    }
}

/// libpq's words about the last failure, on one line.
func lastMessage(_ connection: OpaquePointer) -> String {
    guard let text = unsafe PQerrorMessage(connection) else { return "no reason was given" }
    return unsafe String(cString: text).onOneLine
}

extension String {
    /// The lines trimmed and joined by a space.
    var onOneLine: String {
        split { $0.isNewline || $0 == "\t" }.joined(separator: " ")
    }
}

/// libpq calls it for notices and warnings: warnings are logged, by their code and first line.
private func receiveNotice(_ context: UnsafeMutableRawPointer?, _ result: OpaquePointer?) {
    guard let context = unsafe context, let result = unsafe result else { return }
    unsafe Unmanaged<PostgresLink>.fromOpaque(context).takeUnretainedValue().noteNotice(result)
}

extension PostgresLink {
    fileprivate func noteNotice(_ result: OpaquePointer) {
        guard unsafe errorField(result, .severity) == "WARNING" else { return }
        let code = unsafe errorField(result, .sqlState) ?? ""
        let message = unsafe errorField(result, .message) ?? ""
        configuration.logger.warning("PostgreSQL warned", [.sqlState: .text(code), .errorMessage: .text(message)])
    }
}
