import Postgres
import PushCore
import SQLText
import Synchronization
import Telemetry
import TestSupport
import Testing

@Suite struct ListenerTests {
    @Test func `notifications come, equal ones of one transaction once`() async throws {
        try await withListener { events, connection in
            try await events.wait { $0.contains("listening") }
            try await connection.execute(
                "BEGIN; NOTIFY jobs, 'a'; NOTIFY jobs, 'a'; NOTIFY \"odd \"\"name\", 'b'; NOTIFY other, 'c'; COMMIT"
            )
            try await events.wait { $0.contains("odd \"name b") }
            #expect(events.all == ["listening", "jobs a", "odd \"name b"])
        }
    }

    @Test func `a listener whose connection is terminated listens again and says so`() async throws {
        try await withListener { events, connection in
            try await events.wait { $0.contains("listening") }
            for round in 1...3 {
                try await connection.query(
                    sql(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                            + "WHERE application_name = 'listener' AND datname = current_database()"
                    )
                )
                try await events.wait { events in
                    events.count { $0 == "listening" } == round + 1 && events.count { $0 == "lost" } == round
                }
                try await connection.execute("NOTIFY jobs, '\(round)'")
                try await events.wait { $0.contains("jobs \(round)") }
            }
            try await waitUntil(
                connection,
                """
                SELECT count(*) = 1 FROM pg_stat_activity
                WHERE application_name = 'listener' AND datname = current_database()
                """
            )
        }
    }

    @Test func `a quiet connection is asked whether it lives`() async throws {
        try await withListener(pingInterval: .milliseconds(20)) { events, connection in
            try await events.wait { $0.contains("listening") }
            try await waitUntil(
                connection,
                """
                SELECT count(*) > 0 FROM pg_stat_activity
                WHERE application_name = 'listener' AND query LIKE '%pg_is_in_recovery%'
                """
            )
            try await connection.execute("NOTIFY jobs, 'still here'")
            try await events.wait { $0.contains("jobs still here") }
        }
    }

    @Test func `a listener refuses to listen through a pooler`() async throws {
        try await withEmptyDatabase { database in
            try await withPgBouncer(database) { configuration in
                let events = EventLog()
                let listener = makeListener(configuration)
                let task = Task { await listener.run { events.note($0) } }
                try await events.wait { $0.contains("lost") }
                task.cancel()
                await task.value
                #expect(!events.all.contains("listening"))
                #expect(events.lastError?.code == .configuration)
            }
        }
    }

    @Test func `a listener waits for a server that is away`() async throws {
        let events = EventLog()
        let listener = makeListener(PostgresConfiguration("host=/nonexistent dbname=x"))
        let task = Task { await listener.run { events.note($0) } }
        try await events.wait { $0.count { $0 == "lost" } >= 3 }
        task.cancel()
        await task.value
        #expect(events.lastError?.code == .connection)
    }

    private func makeListener(
        _ configuration: PostgresConfiguration,
        pingInterval: Duration = .seconds(20)
    ) -> PostgresListener {
        var listener = PostgresListener(
            configuration,
            channels: ["jobs", "odd \"name"],
            healthPing: SQLText.healthPing,
            readProcessID: SQLText.listenerReadProcessID
        )
        listener.backoff = Backoff(first: .milliseconds(10), longest: .milliseconds(50))
        listener.pingInterval = pingInterval
        return listener
    }

    private func withListener(
        pingInterval: Duration = .seconds(20),
        _ body: (EventLog, PostgresConnection) async throws -> Void
    ) async throws {
        try await withEmptyDatabase { database in
            let events = EventLog()
            var configuration = database.configuration()
            configuration.applicationName = "listener"
            configuration.logger.level = .error
            let listener = makeListener(configuration, pingInterval: pingInterval)
            let task = Task { await listener.run { events.note($0) } }
            try await body(events, database.connect())
            task.cancel()
            await task.value
        }
    }
}

/// Keeps what a listener told, and lets a test wait for it.
private final class EventLog: Sendable {
    private struct State {
        var all: [String] = []
        var lastError: PostgresError?
        var waiter: (condition: @Sendable ([String]) -> Bool, continuation: CheckedContinuation<Void, Never>)?

        mutating func takeWaiterIfReady() -> CheckedContinuation<Void, Never>? {
            guard let waiter, waiter.condition(all) else { return nil }
            return take()
        }

        mutating func take() -> CheckedContinuation<Void, Never>? {
            defer { waiter = nil }
            return waiter?.continuation
        }
    }

    private let state = Mutex(State())

    var all: [String] { state.withLock { $0.all } }
    var lastError: PostgresError? { state.withLock { $0.lastError } }

    func note(_ event: PostgresListener.Event) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            switch event {
            case .listening: state.all.append("listening")
            case .notification(let notification): state.all.append("\(notification.channel) \(notification.payload)")
            case .lost(let error):
                state.all.append("lost")
                state.lastError = error
            }
            return state.takeWaiterIfReady()
        }
        waiter?.resume()
    }

    /// Waits until the events fulfil a condition; gives up after twenty seconds.
    func wait(_ condition: @escaping @Sendable ([String]) -> Bool) async throws {
        let timer = Task {
            try await ContinuousClock().sleep(for: .seconds(20))
            Issue.record("the events never came: \(all)")
            state.withLock { $0.take() }?.resume()
        }
        await withCheckedContinuation { continuation in
            let ready = state.withLock { state in
                state.waiter = (condition, continuation)
                return state.takeWaiterIfReady()
            }
            ready?.resume()
        }
        timer.cancel()
    }
}
