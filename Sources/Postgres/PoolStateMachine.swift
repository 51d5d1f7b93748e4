/// Who waits for a connection of a pool.
struct PoolLeaseID: Hashable, Sendable {
    let value: Int
}

/// A place for a connection in a pool: it outlives failed attempts to connect.
struct PoolSlotID: Hashable, Sendable {
    let value: Int
}

/// The whole logic of a pool of connections: events in, actions out, no waiting and no clock.
///
/// Waiters are served in the order they came, idle connections are used most recent first.
struct PoolStateMachine {
    /// What one slot is doing.
    private enum Slot {
        /// A connection is being made. Can go to `idle`, `leased`, `backingOff`, or away.
        case connecting(failures: Int)
        /// Waits before the next attempt. Can go to `connecting`, or away.
        case backingOff(failures: Int)
        /// Has a connection that nobody uses. Can go to `leased`, or away.
        case idle(since: ContinuousClock.Instant)
        /// Somebody uses the connection. Can go to `idle`, stay `leased` by the next, or away.
        case leased
    }

    /// The answer to somebody who asks for a connection.
    enum RequestAction: Equatable {
        /// Use the connection of this slot, after a look whether it still lives if it was idle for long.
        case lease(PoolSlotID, needsCheck: Bool)
        /// Wait; and begin to connect this slot, if one is named.
        case wait(connect: PoolSlotID?)
        /// Too many wait already.
        case refuseOverloaded
        /// The pool is closed.
        case refuseClosed
    }

    /// What to do with a slot.
    enum SlotAction: Equatable {
        /// Hand its connection to this waiter.
        case lease(PoolSlotID, to: PoolLeaseID)
        /// Keep its connection for later.
        case park(PoolSlotID)
        /// Make a connection for it.
        case connect(PoolSlotID)
        /// Wait before the next attempt, by the number of failures in a row.
        case backOff(PoolSlotID, failures: Int)
        /// Close its connection, if it has one.
        case close(PoolSlotID)
    }

    private let maximumConnections: Int
    private let maximumWaiters: Int
    private let checkAfterIdle: Duration
    private var slots: [PoolSlotID: Slot] = [:]
    private var idle: [PoolSlotID] = []
    private var waiters: [PoolLeaseID] = []
    private var slotCount = 0
    private var isClosed = false

    init(maximumConnections: Int, maximumWaiters: Int, checkAfterIdle: Duration) {
        precondition(maximumConnections > 0 && maximumWaiters > 0, "a pool needs room for a connection and a waiter")
        self.maximumConnections = maximumConnections
        self.maximumWaiters = maximumWaiters
        self.checkAfterIdle = checkAfterIdle
    }

    var counts: PostgresPoolCounts {
        var counts = PostgresPoolCounts(waiting: waiters.count)
        for slot in slots.values {
            switch slot {
            case .connecting, .backingOff: counts.connecting += 1
            case .idle: counts.idle += 1
            case .leased: counts.inUse += 1
            }
        }
        return counts
    }

    /// Somebody asks for a connection; `isAgain` when the one they got turned out to be dead, which keeps their place.
    mutating func requested(_ lease: PoolLeaseID, isAgain: Bool, at now: ContinuousClock.Instant) -> RequestAction {
        guard !isClosed else { return .refuseClosed }
        if let slot = idle.popLast() {
            guard case .idle(let since) = slots[slot] else { preconditionFailure("\(slot) is idle in one list only") }
            slots[slot] = .leased
            return .lease(slot, needsCheck: now - since > checkAfterIdle)
        }
        guard waiters.count < maximumWaiters else { return .refuseOverloaded }
        waiters.insert(lease, at: isAgain ? 0 : waiters.count)
        return .wait(connect: makeSlotIfNeeded())
    }

    /// Somebody no longer waits. Returns whether they did: otherwise they have been served.
    mutating func gaveUp(_ lease: PoolLeaseID) -> Bool {
        guard let position = waiters.firstIndex(of: lease) else { return false }
        waiters.remove(at: position)
        return true
    }

    /// A slot has its connection.
    mutating func connected(_ slot: PoolSlotID, at now: ContinuousClock.Instant) -> SlotAction {
        guard case .connecting = slots[slot] else { unexpected("connected", slot) }
        return serve(slot, at: now)
    }

    /// A slot could not connect.
    mutating func connectFailed(_ slot: PoolSlotID) -> SlotAction {
        guard case .connecting(let failures) = slots[slot] else { unexpected("connectFailed", slot) }
        guard !isClosed, !waiters.isEmpty else { return forget(slot) }
        slots[slot] = .backingOff(failures: failures + 1)
        return .backOff(slot, failures: failures + 1)
    }

    /// The wait before the next attempt is over.
    mutating func backedOff(_ slot: PoolSlotID) -> SlotAction {
        guard case .backingOff(let failures) = slots[slot] else { unexpected("backedOff", slot) }
        guard !isClosed, !waiters.isEmpty else { return forget(slot) }
        slots[slot] = .connecting(failures: failures)
        return .connect(slot)
    }

    /// Somebody gave a connection back.
    mutating func released(_ slot: PoolSlotID, isUsable: Bool, at now: ContinuousClock.Instant) -> SlotAction {
        guard case .leased = slots[slot] else { unexpected("released", slot) }
        return isUsable ? serve(slot, at: now) : forget(slot)
    }

    /// Begins to connect if that helps those who wait: after a broken connection was taken out.
    mutating func replenish() -> PoolSlotID? {
        isClosed ? nil : makeSlotIfNeeded()
    }

    /// Closes the pool: who waits is told so, idle connections go, used ones go when they are given back.
    mutating func close() -> (waiters: [PoolLeaseID], idle: [PoolSlotID]) {
        isClosed = true
        defer {
            for slot in idle { slots[slot] = nil }
            waiters = []
            idle = []
        }
        return (waiters, idle)
    }

    /// Hands the slot's connection to the first waiter, or parks it.
    private mutating func serve(_ slot: PoolSlotID, at now: ContinuousClock.Instant) -> SlotAction {
        guard !isClosed else { return forget(slot) }
        guard !waiters.isEmpty else {
            slots[slot] = .idle(since: now)
            idle.append(slot)
            return .park(slot)
        }
        slots[slot] = .leased
        return .lease(slot, to: waiters.removeFirst())
    }

    private mutating func forget(_ slot: PoolSlotID) -> SlotAction {
        slots[slot] = nil
        return .close(slot)
    }

    /// One attempt to connect for each waiter, as far as there is room.
    private mutating func makeSlotIfNeeded() -> PoolSlotID? {
        guard counts.connecting < waiters.count, slots.count < maximumConnections else { return nil }
        slotCount += 1
        let slot = PoolSlotID(value: slotCount)
        slots[slot] = .connecting(failures: 0)
        return slot
    }

    private func unexpected(_ event: StaticString, _ slot: PoolSlotID) -> Never {
        preconditionFailure("the pool got \(event) for slot \(slot.value), which is \(String(describing: slots[slot]))")
    }
}
