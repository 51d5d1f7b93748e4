import Testing

@testable import Postgres

@Suite struct PoolStateMachineTests {
    private let start = ContinuousClock.now

    @Test func `the first caller waits for a connection and gets it`() {
        var pool = makePool()
        expect(pool.requested(lease(1), isAgain: false, at: start), .wait(connect: slot(1)))
        expect(pool.connected(slot(1), at: start), .lease(slot(1), to: lease(1)))
        expect(pool.released(slot(1), isUsable: true, at: start), .park(slot(1)))
        expect(pool.requested(lease(2), isAgain: false, at: start), .lease(slot(1), needsCheck: false))
    }

    @Test func `there are never more connections than allowed, and waiters are served in order`() {
        var pool = makePool(connections: 2)
        expect(pool.requested(lease(1), isAgain: false, at: start), .wait(connect: slot(1)))
        expect(pool.requested(lease(2), isAgain: false, at: start), .wait(connect: slot(2)))
        expect(pool.requested(lease(3), isAgain: false, at: start), .wait(connect: nil))
        expect(pool.requested(lease(4), isAgain: false, at: start), .wait(connect: nil))
        expect(pool.connected(slot(2), at: start), .lease(slot(2), to: lease(1)))
        expect(pool.connected(slot(1), at: start), .lease(slot(1), to: lease(2)))
        expect(pool.released(slot(1), isUsable: true, at: start), .lease(slot(1), to: lease(3)))
        expect(pool.released(slot(2), isUsable: true, at: start), .lease(slot(2), to: lease(4)))
        #expect(pool.counts == PostgresPoolCounts(inUse: 2))
    }

    @Test func `a connection that was idle for long is checked, and its caller keeps the place if it is dead`() {
        var pool = makePool(connections: 1)
        expect(pool.requested(lease(1), isAgain: false, at: start), .wait(connect: slot(1)))
        expect(pool.connected(slot(1), at: start), .lease(slot(1), to: lease(1)))
        expect(pool.released(slot(1), isUsable: true, at: start), .park(slot(1)))
        let later = start + .seconds(6)
        expect(pool.requested(lease(2), isAgain: false, at: later), .lease(slot(1), needsCheck: true))
        expect(pool.requested(lease(3), isAgain: false, at: later), .wait(connect: nil))
        expect(pool.released(slot(1), isUsable: false, at: later), .close(slot(1)))
        expect(pool.replenish(), slot(2))
        expect(pool.requested(lease(2), isAgain: true, at: later), .wait(connect: nil))
        expect(pool.connected(slot(2), at: later), .lease(slot(2), to: lease(2)))
        expect(pool.released(slot(2), isUsable: true, at: later), .lease(slot(2), to: lease(3)))
    }

    @Test func `the connection used last is used first`() {
        var pool = makePool(connections: 2)
        expect(pool.requested(lease(1), isAgain: false, at: start), .wait(connect: slot(1)))
        expect(pool.requested(lease(2), isAgain: false, at: start), .wait(connect: slot(2)))
        expect(pool.connected(slot(1), at: start), .lease(slot(1), to: lease(1)))
        expect(pool.connected(slot(2), at: start), .lease(slot(2), to: lease(2)))
        expect(pool.released(slot(2), isUsable: true, at: start), .park(slot(2)))
        expect(pool.released(slot(1), isUsable: true, at: start), .park(slot(1)))
        expect(pool.requested(lease(3), isAgain: false, at: start), .lease(slot(1), needsCheck: false))
    }

    @Test func `attempts to connect go on, ever more slowly, while somebody waits`() {
        var pool = makePool()
        expect(pool.requested(lease(1), isAgain: false, at: start), .wait(connect: slot(1)))
        expect(pool.connectFailed(slot(1)), .backOff(slot(1), failures: 1))
        expect(pool.backedOff(slot(1)), .connect(slot(1)))
        expect(pool.connectFailed(slot(1)), .backOff(slot(1), failures: 2))
        expect(pool.gaveUp(lease(1)), true)
        expect(pool.backedOff(slot(1)), .close(slot(1)))
        #expect(pool.counts == PostgresPoolCounts())
    }

    @Test func `a waiter that gave up is not served and cannot give up twice`() {
        var pool = makePool(connections: 1)
        expect(pool.requested(lease(1), isAgain: false, at: start), .wait(connect: slot(1)))
        expect(pool.requested(lease(2), isAgain: false, at: start), .wait(connect: nil))
        expect(pool.gaveUp(lease(1)), true)
        expect(pool.gaveUp(lease(1)), false)
        expect(pool.connected(slot(1), at: start), .lease(slot(1), to: lease(2)))
        expect(pool.gaveUp(lease(2)), false)
    }

    @Test func `too many waiters are refused`() {
        var pool = makePool(connections: 1, waiters: 2)
        expect(pool.requested(lease(1), isAgain: false, at: start), .wait(connect: slot(1)))
        expect(pool.requested(lease(2), isAgain: false, at: start), .wait(connect: nil))
        expect(pool.requested(lease(3), isAgain: false, at: start), .refuseOverloaded)
    }

    @Test func `a closed pool lets everything go`() {
        var pool = makePool(connections: 3)
        expect(pool.requested(lease(1), isAgain: false, at: start), .wait(connect: slot(1)))
        expect(pool.requested(lease(2), isAgain: false, at: start), .wait(connect: slot(2)))
        expect(pool.requested(lease(3), isAgain: false, at: start), .wait(connect: slot(3)))
        expect(pool.connected(slot(1), at: start), .lease(slot(1), to: lease(1)))
        expect(pool.connected(slot(2), at: start), .lease(slot(2), to: lease(2)))
        expect(pool.released(slot(2), isUsable: true, at: start), .lease(slot(2), to: lease(3)))
        expect(pool.requested(lease(4), isAgain: false, at: start), .wait(connect: nil))
        let closed = pool.close()
        #expect(closed.waiters == [lease(4)])
        #expect(closed.idle.isEmpty)
        expect(pool.connected(slot(3), at: start), .close(slot(3)))
        expect(pool.released(slot(1), isUsable: true, at: start), .close(slot(1)))
        expect(pool.released(slot(2), isUsable: true, at: start), .close(slot(2)))
        expect(pool.requested(lease(5), isAgain: false, at: start), .refuseClosed)
        expect(pool.replenish(), nil)
        #expect(pool.counts == PostgresPoolCounts())
    }

    @Test func `giving back what is not leased stops the process`() async {
        await #expect(processExitsWith: .failure) {
            var pool = PoolStateMachine(maximumConnections: 1, maximumWaiters: 1, checkAfterIdle: .seconds(5))
            _ = pool.released(PoolSlotID(value: 1), isUsable: true, at: .now)
        }
    }

    private func makePool(connections: Int = 4, waiters: Int = 100) -> PoolStateMachine {
        PoolStateMachine(maximumConnections: connections, maximumWaiters: waiters, checkAfterIdle: .seconds(5))
    }

    /// `#expect` cannot call what changes the pool.
    private func expect<Value: Equatable>(
        _ actual: Value,
        _ expected: Value,
        _ location: SourceLocation = #_sourceLocation
    ) {
        #expect(actual == expected, sourceLocation: location)
    }

    private func lease(_ value: Int) -> PoolLeaseID { PoolLeaseID(value: value) }
    private func slot(_ value: Int) -> PoolSlotID { PoolSlotID(value: value) }
}
