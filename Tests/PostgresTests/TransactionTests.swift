import Postgres
import PushCore
import TestSupport
import Testing

@Suite struct TransactionTests {
    @Test func `a transaction commits when its body returns and rolls back when it throws`() async throws {
        try await withTable { connection in
            let value = try await connection.transaction { connection in
                try await connection.query(sql("INSERT INTO t VALUES (1)"))
                return 5
            }
            #expect(value == 5)
            await #expect(throws: Refusal.self) {
                try await connection.transaction { connection in
                    try await connection.query(sql("INSERT INTO t VALUES (2)"))
                    throw Refusal()
                }
            }
            let values = try await connection.query(sql("SELECT a FROM t")).int64Column(0)
            #expect(values == [1])
            #expect(connection.condition == .idle)
        }
    }

    @Test func `an error that the body let pass is no commit`() async throws {
        try await withTable { connection in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.transaction { connection in
                    try await connection.query(sql("INSERT INTO t VALUES (1)"))
                    _ = try? await connection.query(sql("SELECT 1/0"))
                }
            }
            #expect(error?.code == .transactionAborted)
            let count = try await connection.query(sql("SELECT count(*) FROM t")).int64(0, 0)
            #expect(count == 0)
        }
    }

    @Test func `a cancelled transaction is rolled back and the connection can be used`() async throws {
        try await withTable { connection in
            let task = Task {
                try await connection.transaction { connection in
                    try await connection.query(sql("INSERT INTO t VALUES (1)"))
                    unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
                    try await connection.query(sql("INSERT INTO t VALUES (2)"))
                }
            }
            let error = await #expect(throws: PostgresError.self) { try await task.value }
            #expect(error?.code == .cancelled)
            let count = try await connection.query(sql("SELECT count(*) FROM t")).int64(0, 0)
            #expect(count == 0)
        }
    }

    @Test func `a connection that breaks within a transaction reports it and changes nothing`() async throws {
        try await withTable { connection in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.transaction { connection in
                    try await connection.query(sql("INSERT INTO t VALUES (1)"))
                    _ = try? await connection.query(sql("SELECT pg_terminate_backend(pg_backend_pid())"))
                }
            }
            #expect(error?.code == .connection)
            #expect(connection.condition == .closed)
        }
    }

    @Test func `a transaction whose owner sleeps lets go of its rows`() async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            let observer = try await database.connect()
            try await connection.execute("CREATE TABLE t (a bigint); INSERT INTO t VALUES (1)")
            let error = await #expect(throws: PostgresError.self) {
                try await connection.transaction(TransactionOptions(idleLimit: .milliseconds(300))) { connection in
                    try await connection.query(sql("UPDATE t SET a = 2"))
                    // Waits until the row is free.
                    try await observer.query(sql("SELECT a FROM t FOR UPDATE"), deadline: .seconds(20))
                }
            }
            #expect(error?.code == .commitUncertain)
            #expect(connection.condition == .closed)
            let value = try await observer.query(sql("SELECT a FROM t")).int64(0, 0)
            #expect(value == 1)
            await observer.close()
        }
    }

    @Test func `a transaction that was refused in the middle of its beginning leaves nothing open`() async throws {
        try await withTable { connection in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.transaction(TransactionOptions(idleLimit: .seconds(-1))) { _ in }
            }
            #expect(error?.sqlState?.text == "22023")
            #expect(connection.condition == .idle)
            let value = try await connection.query(sql("SELECT 7::bigint")).int64(0, 0)
            #expect(value == 7)
        }
    }

    @Test func `a connection that breaks during the commit leaves it uncertain`() async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            let observer = try await database.connect()
            try await connection.execute(
                """
                CREATE TABLE t (a bigint);
                CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
                CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION slow();
                """
            )
            let task = Task {
                try await connection.transaction { try await $0.execute("INSERT INTO t VALUES (1)") }
            }
            try await waitUntil(
                observer,
                "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
            )
            try await observer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
            )
            let error = await #expect(throws: PostgresError.self) { try await task.value }
            #expect(error?.code == .commitUncertain)
            #expect(error?.isRetryable == false)
            #expect(connection.condition == .closed)
        }
    }

    @Test func `a second transaction within the first is refused`() async throws {
        try await withTable { connection in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.transaction { try await $0.transaction { _ in } }
            }
            #expect(error?.code == .misuse)
            #expect(connection.condition == .idle)
        }
    }

    @Test func `options hold for the transaction alone`() async throws {
        try await withTable { connection in
            let options = TransactionOptions(isolation: .repeatableRead, commitsAsynchronously: true)
            let show = sql("SELECT current_setting('transaction_isolation'), current_setting('synchronous_commit')")
            let within = try await connection.transaction(options) { try await $0.query(show) }
            #expect(try within.text(0, 0) == "repeatable read")
            #expect(try within.text(0, 1) == "off")
            let after = try await connection.query(show)
            #expect(try after.text(0, 0) == "read committed")
            #expect(try after.text(0, 1) == "on")
        }
    }

    @Test func `a serialization failure is retryable and keeps the connection`() async throws {
        try await withTable { connection in
            try await connection.execute("INSERT INTO t VALUES (1)")
            let error = await #expect(throws: PostgresError.self) {
                try await connection.execute("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$")
            }
            #expect(error?.isRetryable == true)
            #expect(error?.closesConnection == false)
        }
    }

    private struct Refusal: Error {}

    private func withTable(_ body: (PostgresConnection) async throws -> Void) async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            try await connection.execute("CREATE TABLE t (a bigint)")
            try await body(connection)
        }
    }
}
