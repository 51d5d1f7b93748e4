package import PushCore
import Synchronization
import Telemetry

/// How a pool behaves.
package struct PostgresPoolOptions: Sendable {
    /// How many connections there are at most. Fixed: a pool never grows beyond it.
    package var maximumConnections: Int
    /// How many may wait for a connection; further ones are refused at once.
    package var maximumWaiters = 1000
    /// How long to wait for a connection, where the call names no time of its own.
    package var leaseDeadline: Duration = .seconds(10)
    /// A connection that was idle for longer is asked whether it lives, and accepts writes, before it is used.
    package var checkAfterIdle: Duration = .seconds(5)
    /// How long to wait between attempts to connect.
    package var backoff = Backoff(first: .milliseconds(100), longest: .seconds(5))

    package init(maximumConnections: Int) {
        self.maximumConnections = maximumConnections
    }
}

/// What a pool is doing.
package struct PostgresPoolCounts: Sendable, Equatable {
    /// Connections that are being made, or wait before the next attempt.
    package var connecting = 0
    package var idle = 0
    package var inUse = 0
    /// Callers that wait for a connection.
    package var waiting = 0

    package init(connecting: Int = 0, idle: Int = 0, inUse: Int = 0, waiting: Int = 0) {
        self.connecting = connecting
        self.idle = idle
        self.inUse = inUse
        self.waiting = waiting
    }
}

/// A few connections that are shared: made when they are needed, checked when they were idle, replaced when they broke.
///
/// Who waits is served in order. While the server is away attempts go on, with growing pauses, as long as anybody waits.
package final class PostgresPool: Sendable {
    private struct Lease: Sendable {
        let slot: PoolSlotID
        let connection: PostgresConnection
        let needsCheck: Bool
    }

    private struct Waiter {
        let continuation: CheckedContinuation<Result<Lease, PostgresError>, Never>
        let timer: Task<Void, Never>
    }

    private struct State {
        var machine: PoolStateMachine
        var connections: [PoolSlotID: PostgresConnection] = [:]
        var waiters: [PoolLeaseID: Waiter] = [:]
        /// The tasks that connect or wait to connect, to be cancelled on close.
        var attempts: [PoolSlotID: Task<Void, Never>] = [:]
        var leaseCount = 0
        var lastFailure: PostgresError?
    }

    package let configuration: PostgresConfiguration
    package let options: PostgresPoolOptions
    private let healthPing: SQLStatement
    private let state: Mutex<State>

    /// Makes a pool without a connection. `healthPing` returns one row with a boolean: whether the server accepts writes.
    package init(_ configuration: PostgresConfiguration, _ options: PostgresPoolOptions, healthPing: SQLStatement) {
        self.configuration = configuration
        self.options = options
        self.healthPing = healthPing
        state = Mutex(
            State(
                machine: PoolStateMachine(
                    maximumConnections: options.maximumConnections,
                    maximumWaiters: options.maximumWaiters,
                    checkAfterIdle: options.checkAfterIdle
                )
            )
        )
    }

    /// Lends a connection to `body`, which runs on the connection's own thread.
    ///
    /// Throws `.poolExhausted` when none became free within `time`, with the reason if the server cannot be reached.
    /// A connection that comes back broken or within a transaction is closed.
    @discardableResult
    package func withConnection<Value: Sendable>(
        within time: Duration? = nil,
        _ body: @Sendable (isolated PostgresConnection) async throws -> Value
    ) async throws -> Value {
        let lease = try await lease(until: .now + (time ?? options.leaseDeadline))
        let value: Value
        do {
            value = try await body(lease.connection)
        } catch {
            release(lease)
            throw error
        }
        release(lease)
        return value
    }

    /// Runs one statement on any connection.
    @discardableResult
    package func query(
        _ statement: SQLStatement,
        _ parameters: PostgresParameters = .none,
        deadline: Duration? = nil
    ) async throws -> PostgresRows {
        try await withConnection { try await $0.query(statement, parameters, deadline: deadline) }
    }

    /// Runs `body` in a transaction on any connection.
    @discardableResult
    package func transaction<Value: Sendable>(
        _ transactionOptions: TransactionOptions = TransactionOptions(),
        _ body: @Sendable (isolated PostgresConnection) async throws -> Value
    ) async throws -> Value {
        try await withConnection { try await $0.transaction(transactionOptions, body) }
    }

    /// What the pool is doing now.
    package var counts: PostgresPoolCounts {
        state.withLock { $0.machine.counts }
    }

    /// Closes the pool. Who waits gets `.closed`; connections in use are closed when they come back.
    package func close() async {
        let (waiters, connections, attempts) = state.withLock { state in
            let closed = state.machine.close()
            let waiters = closed.waiters.compactMap { state.waiters.removeValue(forKey: $0) }
            let connections = closed.idle.compactMap { state.connections.removeValue(forKey: $0) }
            return (waiters, connections, Array(state.attempts.values))
        }
        for waiter in waiters { resume(waiter, .failure(closedError)) }
        for attempt in attempts { attempt.cancel() }
        for connection in connections { await connection.close() }
        for attempt in attempts { await attempt.value }
    }
}

// Leasing.
extension PostgresPool {
    /// Waits for a connection, and asks it whether it lives if it was idle for long.
    private func lease(until deadline: ContinuousClock.Instant) async throws(PostgresError) -> Lease {
        let id = state.withLock { state in
            state.leaseCount += 1
            return PoolLeaseID(value: state.leaseCount)
        }
        var isAgain = false
        while true {
            let lease = try await wait(id, isAgain: isAgain, until: deadline)
            guard lease.needsCheck else { return lease }
            if await isHealthy(lease.connection, until: deadline) { return lease }
            await lease.connection.close()
            release(lease)
            isAgain = true
        }
    }

    private func wait(
        _ id: PoolLeaseID,
        isAgain: Bool,
        until deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> Lease {
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                request(id, isAgain: isAgain, until: deadline, continuation)
                // A cancellation before this moment found nobody to cancel.
                if Task.isCancelled { giveUp(id, cancelledError) }
            }
        } onCancel: {
            giveUp(id, cancelledError)
        }
        return try result.get()
    }

    private func request(
        _ id: PoolLeaseID,
        isAgain: Bool,
        until deadline: ContinuousClock.Instant,
        _ continuation: CheckedContinuation<Result<Lease, PostgresError>, Never>
    ) {
        let (answer, slot) = state.withLock { state -> (Result<Lease, PostgresError>?, PoolSlotID?) in
            switch state.machine.requested(id, isAgain: isAgain, at: .now) {
            case .lease(let slot, let needsCheck):
                return (.success(lease(slot, needsCheck: needsCheck, in: state)), nil)
            case .wait(let slot):
                let timer = Task {
                    try? await Task.sleep(until: deadline, clock: .continuous)
                    if !Task.isCancelled { expire(id) }
                }
                state.waiters[id] = Waiter(continuation: continuation, timer: timer)
                return (nil, slot)
            case .refuseOverloaded:
                return (.failure(error(.poolExhausted, "\(options.maximumWaiters) callers wait already")), nil)
            case .refuseClosed:
                return (.failure(closedError), nil)
            }
        }
        if let answer { continuation.resume(returning: answer) }
        if let slot { connect(slot) }
    }

    private func lease(_ slot: PoolSlotID, needsCheck: Bool, in state: borrowing State) -> Lease {
        guard let connection = state.connections[slot] else { preconditionFailure("\(slot) has no connection") }
        return Lease(slot: slot, connection: connection, needsCheck: needsCheck)
    }

    private func expire(_ id: PoolLeaseID) {
        let failure = state.withLock { $0.lastFailure }
        let reason = failure.map { "; the last attempt to connect: \($0.message)" } ?? ""
        giveUp(id, error(.poolExhausted, "none became free in time\(reason)"))
    }

    private func giveUp(_ id: PoolLeaseID, _ error: PostgresError) {
        let waiter = state.withLock { state in
            state.machine.gaveUp(id) ? state.waiters.removeValue(forKey: id) : nil
        }
        if let waiter { resume(waiter, .failure(error)) }
    }

    private func resume(_ waiter: Waiter, _ result: Result<Lease, PostgresError>) {
        waiter.timer.cancel()
        waiter.continuation.resume(returning: result)
    }

    private func isHealthy(_ connection: PostgresConnection, until deadline: ContinuousClock.Instant) async -> Bool {
        do {
            let rows = try await connection.query(healthPing, deadline: min(deadline - .now, .seconds(5)))
            return try !configuration.requiresWritableServer || rows.bool(0, 0)
        } catch {
            configuration.logger.debug("an idle connection was dead", [.errorMessage: .describing(error)])
            return false
        }
    }

    private func release(_ lease: Lease) {
        let condition = lease.connection.condition
        if condition == .inTransaction {
            configuration.logger.warning("a connection came back within a transaction and is closed")
        }
        perform { $0.released(lease.slot, isUsable: condition == .idle, at: .now) }
    }

    private func error(_ code: PostgresError.Code, _ message: String) -> PostgresError {
        PostgresError(code, activity: "get a connection from the pool", message: message)
    }

    private var closedError: PostgresError { error(.closed, "the pool is closed") }
    private var cancelledError: PostgresError { error(.cancelled, "the task was cancelled") }
}

// Connecting.
extension PostgresPool {
    /// Tells the state machine of an event about a slot and does what it answers.
    private func perform(_ event: (inout PoolStateMachine) -> PoolStateMachine.SlotAction) {
        let (waiter, connection, action, replacement) = state.withLock {
            state -> (Waiter?, PostgresConnection?, PoolStateMachine.SlotAction, PoolSlotID?) in
            let action = event(&state.machine)
            switch action {
            case .lease(let slot, let id):
                return (state.waiters.removeValue(forKey: id), state.connections[slot], action, nil)
            case .close(let slot):
                state.attempts[slot] = nil
                return (nil, state.connections.removeValue(forKey: slot), action, state.machine.replenish())
            case .park, .connect, .backOff:
                return (nil, nil, action, nil)
            }
        }
        switch action {
        case .lease(let slot, _):
            guard let waiter, let connection else { preconditionFailure("\(slot) was leased to nobody") }
            resume(waiter, .success(Lease(slot: slot, connection: connection, needsCheck: false)))
        case .park: break
        case .connect(let slot): connect(slot)
        case .backOff(let slot, let failures): backOff(slot, failures: failures)
        case .close(let slot):
            // The last reference goes here unless somebody still has it: the connection closes with it.
            _ = (slot, connection)
        }
        if let replacement { connect(replacement) }
    }

    private func connect(_ slot: PoolSlotID) {
        start(slot) { [self] in
            do throws(PostgresError) {
                let connection = try await PostgresConnection.connect(configuration)
                state.withLock { state in
                    state.connections[slot] = connection
                    state.lastFailure = nil
                }
                perform { $0.connected(slot, at: .now) }
            } catch {
                noteFailure(error)
                perform { $0.connectFailed(slot) }
            }
        }
    }

    private func backOff(_ slot: PoolSlotID, failures: Int) {
        let delay = options.backoff.delay(afterFailures: failures)
        start(slot) { [self] in
            // Cancelled on close only, and then the state machine lets the slot go.
            try? await Task.sleep(for: delay)
            perform { $0.backedOff(slot) }
        }
    }

    /// Runs one step of a slot as a task that the pool owns. Each step replaces the one before, which ends with it.
    private func start(_ slot: PoolSlotID, _ step: @escaping @Sendable () async -> Void) {
        state.withLock { state in
            state.attempts[slot] = Task { await step() }
        }
    }

    /// Logs the first failure of a row of equal ones.
    private func noteFailure(_ failure: PostgresError) {
        let isNew = state.withLock { state in
            defer { state.lastFailure = failure }
            return state.lastFailure?.message != failure.message
        }
        guard isNew, failure.code != .cancelled else { return }
        configuration.logger.warning(
            "no connection to PostgreSQL",
            [.errorCode: .describing(failure.code), .errorMessage: .describing(failure)]
        )
    }
}
