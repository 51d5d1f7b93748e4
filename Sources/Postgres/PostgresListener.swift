package import PushCore
import Telemetry

/// Listens on channels over a direct connection of its own, for ever: when the connection breaks it makes another one.
///
/// Notifications are hints. What was notified while nobody listened is lost, so `listening` means: look for yourself.
package struct PostgresListener: Sendable {
    /// What a listener tells.
    package enum Event: Sendable {
        /// It listens, for the first time or again. Something may have been missed before.
        case listening
        /// A notification. Equal ones that came together are told once.
        case notification(PostgresNotification)
        /// The connection broke, or none could be made. The next attempt follows by itself.
        case lost(PostgresError)
    }

    package let channels: [String]
    private let configuration: PostgresConfiguration
    private let healthPing: SQLStatement
    private let readProcessID: SQLStatement
    /// How long to wait between attempts to connect.
    package var backoff = Backoff(first: .milliseconds(200), longest: .seconds(10))
    /// How often a quiet connection is asked whether it lives and its server accepts writes.
    package var pingInterval: Duration = .seconds(20)

    /// `readProcessID` returns one row with the server's process, `healthPing` one with whether it accepts writes.
    package init(
        _ configuration: PostgresConfiguration,
        channels: [String],
        healthPing: SQLStatement,
        readProcessID: SQLStatement
    ) {
        precondition(!channels.isEmpty, "a listener needs a channel")
        self.configuration = configuration
        self.channels = channels
        self.healthPing = healthPing
        self.readProcessID = readProcessID
    }

    /// Listens until the task is cancelled. `handle` is called in order and must be quick.
    package func run(_ handle: @Sendable (Event) -> Void) async {
        var failures = 0
        var lastMessage: String?
        while !Task.isCancelled {
            let failure = await listenOnce { event in
                failures = 0
                lastMessage = nil
                handle(event)
            }
            guard failure.code != .cancelled, !Task.isCancelled else { return }
            failures += 1
            if failure.message != lastMessage { log(failure) }
            lastMessage = failure.message
            handle(.lost(failure))
            // It ends early only when the task is cancelled, and so does the loop.
            try? await Task.sleep(for: backoff.delay(afterFailures: failures))
        }
    }

    /// Connects, and hands on what comes until that fails.
    private func listenOnce(_ handle: (Event) -> Void) async -> PostgresError {
        do throws(PostgresError) {
            let connection = try await PostgresConnection.connect(configuration)
            try await checkIsDirect(connection)
            try await connection.listen(to: channels)
            handle(.listening)
            while true {
                let notifications = try await connection.notifications(within: pingInterval)
                for notification in notifications { handle(.notification(notification)) }
                if notifications.isEmpty { try await ping(connection) }
            }
        } catch {
            return error
        }
    }

    /// A pooler would take LISTEN and then let somebody else have the server connection.
    private func checkIsDirect(_ connection: PostgresConnection) async throws(PostgresError) {
        let answering = try await connection.query(readProcessID).int32(0, 0)
        guard await connection.serverProcessID != answering else { return }
        throw PostgresError(
            .configuration,
            activity: "listen on \(channels.joined(separator: ", "))",
            message: "the connection goes through a pooler: set PEAL_DIRECT_DATABASE_URL to the server itself"
        )
    }

    private func ping(_ connection: PostgresConnection) async throws(PostgresError) {
        let isWritable = try await connection.query(healthPing).bool(0, 0)
        guard isWritable || !configuration.requiresWritableServer else {
            throw PostgresError(
                .connection,
                activity: "listen on \(channels.joined(separator: ", "))",
                message: "the server no longer accepts writes"
            )
        }
    }

    private func log(_ failure: PostgresError) {
        configuration.logger.warning(
            "the listener lost its connection",
            [
                .listenChannel: .text(channels.joined(separator: ",")),
                .errorCode: .describing(failure.code),
                .errorMessage: .describing(failure),
            ]
        )
    }
}
