import CPostgres
import Glibc
import PushCore

/// A message that came through LISTEN.
package struct PostgresNotification: Hashable, Sendable {
    package let channel: String
    package let payload: String

    package init(channel: String, payload: String) {
        self.channel = channel
        self.payload = payload
    }
}

// Notifications that come without being asked for.
extension PostgresLink {
    /// The server process behind the connection, as it was told when connecting.
    var serverProcessID: Int32 {
        guard let connection = unsafe connection else { return 0 }
        return unsafe PQbackendPID(connection)
    }

    /// Waits for notifications and returns those that are there, each of them once; none when the time is over.
    func notifications(within time: Duration) throws(PostgresError) -> [PostgresNotification] {
        let exchange = Exchange("wait for notifications", within: time)
        while true {
            let connection = unsafe try opened(exchange)
            let isAlive = unsafe PQconsumeInput(connection) == 1
            let notifications = unsafe receivedNotifications(connection)
            guard notifications.isEmpty else { return notifications }
            guard isAlive else { throw unsafe brokenConnection(connection, exchange) }
            let wake = Poll.wait(
                unsafe PQsocket(connection),
                events: POLLIN,
                interruptedBy: interrupt.fileDescriptor,
                until: exchange.deadline
            )
            switch wake {
            case .ready: continue
            case .deadline: return []
            case .interrupted: throw exchange.stopError(.cancelled, cutOff: false)
            case .failed(let number):
                close()
                throw exchange.error(.connection, "waiting failed: \(SystemError.text(number))")
            }
        }
    }

    private func receivedNotifications(_ connection: OpaquePointer) -> [PostgresNotification] {
        var notifications: [PostgresNotification] = []
        var seen: Set<PostgresNotification> = []
        while let received = unsafe PQnotifies(connection) {
            let notification = unsafe PostgresNotification(
                channel: String(cString: received.pointee.relname),
                payload: String(cString: received.pointee.extra)
            )
            unsafe PQfreemem(received)
            if seen.insert(notification).inserted { notifications.append(notification) }
        }
        return notifications
    }
}

extension PostgresConnection {
    /// The server process behind the connection, as it was told when connecting: a pooler makes one up.
    package var serverProcessID: Int32 { link.serverProcessID }

    /// Asks for the notifications of some channels. Only on a direct connection: a pooler would lose them.
    package func listen(to channels: [String]) async throws(PostgresError) {
        let script = channels.map { channel in
            let escaped = channel.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"")
            return "LISTEN \"\(escaped)\""
        }
        try await execute(script.joined(separator: "; "), named: "LISTEN")
    }

    /// Waits for notifications and returns those that are there, each of them once; none when the time is over.
    package func notifications(within time: Duration) async throws(PostgresError) -> [PostgresNotification] {
        try await interruptible { link throws(PostgresError) in try link.notifications(within: time) }
    }
}
