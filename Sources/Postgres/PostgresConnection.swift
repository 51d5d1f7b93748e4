package import PushCore
import Synchronization

/// One connection to PostgreSQL: an actor on a thread of its own, where it blocks in poll(2) and nobody else waits.
///
/// Each call has a deadline; when it is over, or the calling task is cancelled, the statement is cancelled in the
/// server, and if the server stays silent the connection is closed. A statement that finished before that took effect
/// returns as usual. A call from elsewhere costs two thread switches (about 20 µs); calls within `transaction` or
/// `PostgresPool.withConnection` run on the connection's own thread and cost none.
/// Give a connection to one task at a time: calls of several tasks would mix within a transaction.
package actor PostgresConnection {
    /// What the connection can be used for, readable without waiting.
    package enum Condition: UInt8, AtomicRepresentable, Sendable {
        case idle
        case inTransaction
        case closed
    }

    package nonisolated let configuration: PostgresConfiguration
    private let executor: DedicatedThreadExecutor
    let link: PostgresLink
    private nonisolated let published = Atomic(Condition.closed)
    var isTransactionOpen = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe executor.asUnownedSerialExecutor()
    }

    private init(_ configuration: PostgresConfiguration) throws(PostgresError) {
        self.configuration = configuration
        link = try PostgresLink(configuration)
        executor = DedicatedThreadExecutor(name: "peal-postgres")
    }

    deinit {
        executor.stop()
    }

    /// Connects to the first host that accepts, each within `connectTimeout`.
    package static func connect(
        _ configuration: PostgresConfiguration
    ) async throws(PostgresError) -> PostgresConnection {
        let connection = try PostgresConnection(configuration)
        try await connection.open()
        return connection
    }

    private func open() async throws(PostgresError) {
        try await interruptible { link throws(PostgresError) in try link.connect() }
    }

    /// What the last call left behind.
    package nonisolated var condition: Condition { published.load(ordering: .acquiring) }

    /// Closes the connection at once. Later calls throw `.connection`.
    package func close() {
        link.close()
        publishCondition()
    }

    /// Runs one statement. Without a deadline of its own it has the configuration's `statementDeadline`.
    @discardableResult
    package func query(
        _ statement: SQLStatement,
        _ parameters: PostgresParameters = .none,
        deadline: Duration? = nil
    ) async throws(PostgresError) -> PostgresRows {
        let time = deadline ?? configuration.statementDeadline
        return try await interruptible { link throws(PostgresError) in
            try link.query(statement, parameters, within: time)
        }
    }

    /// Runs a script of several statements without parameters, as one transaction unless it says otherwise.
    ///
    /// Errors call it by `name`.
    /// The rows of the last statement come back as text: only `text` and `bytes` can read them.
    @discardableResult
    package func execute(
        _ script: String,
        named name: String? = nil,
        deadline: Duration? = nil
    ) async throws(PostgresError) -> PostgresRows {
        let time = deadline ?? configuration.statementDeadline
        return try await interruptible { link throws(PostgresError) in
            try link.execute(script, "run a script", named: name, within: time)
        }
    }

    /// Does something with the link that the cancellation of the calling task stops.
    func interruptible<Value>(
        _ body: (PostgresLink) throws(PostgresError) -> Value
    ) async throws(PostgresError) -> Value {
        guard !Task.isCancelled else {
            throw PostgresError(.cancelled, activity: "use the connection", message: "the task was cancelled before")
        }
        let interrupt = link.interrupt
        let generation = interrupt.arm()
        defer {
            interrupt.disarm()
            publishCondition()
        }
        let result = await withTaskCancellationHandler {
            Result { () throws(PostgresError) in try body(link) }
        } onCancel: {
            interrupt.fire(generation)
        }
        return try result.get()
    }

    /// Does something with the link that must come to its end even if the task was cancelled: a ROLLBACK, a COMMIT.
    func uninterrupted<Value, Failure>(_ body: (PostgresLink) throws(Failure) -> Value) throws(Failure) -> Value {
        defer { publishCondition() }
        return try body(link)
    }

    private func publishCondition() {
        let condition: Condition = !link.isOpen ? .closed : link.isInTransaction ? .inTransaction : .idle
        published.store(condition, ordering: .releasing)
    }
}
