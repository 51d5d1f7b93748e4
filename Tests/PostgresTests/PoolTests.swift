import Postgres
import PushCore
import SQLText
import Synchronization
import TestSupport
import Testing

@Suite struct PoolTests {
    private let processID = SQLStatement(name: "process_id", text: "SELECT pg_backend_pid()")
    private let terminate = SQLStatement(name: "terminate", text: "SELECT pg_terminate_backend($1, 5000)")

    @Test func `connections are reused and never exceed the limit`() async throws {
        try await withPool(maximumConnections: 3) { pool in
            let gauge = Gauge()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<60 {
                    group.addTask {
                        try await pool.withConnection { connection in
                            gauge.enter()
                            try await connection.query(processID)
                            gauge.leave()
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(gauge.most <= 3)
            let counts = pool.counts
            #expect(counts.inUse == 0 && counts.waiting == 0)
            #expect(counts.idle + counts.connecting <= 3)
        }
    }

    @Test func `a terminated connection is replaced`() async throws {
        try await withPool(maximumConnections: 1) { pool in
            let first = try await pool.query(processID).int32(0, 0)
            try await withPool(sameServerAs: pool) { other in
                let isTerminated = try await other.query(terminate, [.int32(first)]).bool(0, 0)
                #expect(isTerminated)
            }
            let error = await #expect(throws: PostgresError.self) { try await pool.query(processID) }
            #expect(error?.closesConnection == true)
            #expect(error?.isRetryable == true)
            let second = try await pool.query(processID).int32(0, 0)
            #expect(second != first)
        }
    }

    @Test func `an idle connection that died is noticed before it is used`() async throws {
        try await withPool(maximumConnections: 1, checkAfterIdle: .zero) { pool in
            let first = try await pool.query(processID).int32(0, 0)
            try await withPool(sameServerAs: pool) { other in
                let isTerminated = try await other.query(terminate, [.int32(first)]).bool(0, 0)
                #expect(isTerminated)
            }
            let second = try await pool.query(processID).int32(0, 0)
            #expect(second != first)
        }
    }

    @Test func `a server that turned read-only is left`() async throws {
        try await withPool(maximumConnections: 1, checkAfterIdle: .zero) { pool in
            let first = try await pool.query(processID).int32(0, 0)
            _ = try await pool.withConnection { try await $0.execute("SET default_transaction_read_only = on") }
            // The session that says so is thrown away; a new one is asked by libpq whether it accepts writes.
            let second = try await pool.query(processID).int32(0, 0)
            #expect(second != first)
        }
    }

    @Test func `a caller gives up at its deadline, with the reason when the server is away`() async throws {
        let configuration = PostgresConfiguration("host=/nonexistent dbname=peal")
        let pool = PostgresPool(
            configuration,
            PostgresPoolOptions(maximumConnections: 1),
            healthPing: SQLText.healthPing
        )
        var errors: [PostgresError] = []
        // The first attempt to connect may take longer than the first caller waits.
        while errors.count < 100, errors.last?.message.contains("/nonexistent") != true {
            let error = await #expect(throws: PostgresError.self) {
                try await pool.withConnection(within: .milliseconds(100)) { _ in }
            }
            errors.append(try #require(error))
        }
        #expect(errors.allSatisfy { $0.code == .poolExhausted })
        #expect(errors.last?.message.contains("/nonexistent") == true)
        await pool.close()
        #expect(pool.counts == PostgresPoolCounts())
    }

    @Test func `a connection left within a transaction is closed`() async throws {
        try await withPool(maximumConnections: 1) { pool in
            let first = try await pool.query(processID).int32(0, 0)
            _ = try await pool.withConnection { try await $0.execute("BEGIN") }
            let second = try await pool.query(processID).int32(0, 0)
            #expect(second != first)
        }
    }

    @Test func `cancelled tasks leave every connection idle and out of transactions`() async throws {
        try await withPool(maximumConnections: 4) { pool in
            for round in 0..<20 {
                await withTaskGroup(of: Void.self) { group in
                    for _ in 0..<12 {
                        group.addTask {
                            // Whether it was cancelled or not does not matter here: the connections are looked at.
                            _ = try? await pool.transaction { connection in
                                for _ in 0..<10 { try await connection.query(processID) }
                            }
                        }
                    }
                    for _ in 0..<round { await Task.yield() }
                    _ = try? await pool.query(processID)
                    group.cancelAll()
                }
                let counts = pool.counts
                #expect(counts.waiting == 0 && counts.inUse == 0)
            }
            let inTransaction = SQLStatement(
                name: "in_transaction",
                text: """
                    SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()
                    """
            )
            let count = try await pool.query(inTransaction).int64(0, 0)
            #expect(count == 0)
        }
    }

    @Test func `a closed pool refuses and closes what comes back`() async throws {
        try await withPool(maximumConnections: 2) { pool in
            try await pool.query(processID)
            await pool.close()
            let error = await #expect(throws: PostgresError.self) { try await pool.query(processID) }
            #expect(error?.code == .closed)
            #expect(pool.counts == PostgresPoolCounts())
        }
    }

    private func withPool(
        maximumConnections: Int,
        checkAfterIdle: Duration = .seconds(5),
        _ body: (PostgresPool) async throws -> Void
    ) async throws {
        try await withDatabase { database in
            var options = PostgresPoolOptions(maximumConnections: maximumConnections)
            options.checkAfterIdle = checkAfterIdle
            let pool = PostgresPool(database.configuration(), options, healthPing: SQLText.healthPing)
            try await body(pool)
            await pool.close()
        }
    }

    private func withPool(sameServerAs pool: PostgresPool, _ body: (PostgresPool) async throws -> Void) async throws {
        let other = PostgresPool(
            pool.configuration,
            PostgresPoolOptions(maximumConnections: 1),
            healthPing: SQLText.healthPing
        )
        try await body(other)
        await other.close()
    }
}

/// Counts how many are inside, and how many were at most.
private final class Gauge: Sendable {
    private let counts = Mutex((now: 0, most: 0))

    func enter() { counts.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) } }
    func leave() { counts.withLock { $0.now -= 1 } }
    var most: Int { counts.withLock { $0.most } }
}
