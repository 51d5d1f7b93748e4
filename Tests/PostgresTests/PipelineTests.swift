import Postgres
import PushCore
import TestSupport
import Testing

@Suite struct PipelineTests {
    private let insert = SQLStatement(name: "insert", text: "INSERT INTO t VALUES ($1)")
    private let count = SQLStatement(name: "count", text: "SELECT count(*) FROM t")

    @Test func `each statement has its rows`() async throws {
        try await withTable { connection in
            let results = try await connection.pipeline([
                (insert, [.int64(1)]), (insert, [.int64(2)]), (count, []), (sql("SELECT 'x'"), []),
            ])
            #expect(results.map(\.affectedCount) == [1, 1, 1, 1])
            #expect(try results[2].int64(0, 0) == 2)
            #expect(try results[3].text(0, 0) == "x")
            let none = try await connection.pipeline([])
            #expect(none.isEmpty)
        }
    }

    @Test func `an error undoes the whole pipeline and names the statement`() async throws {
        try await withTable { connection in
            let divide = SQLStatement(name: "divide", text: "SELECT 1 / $1")
            let error = await #expect(throws: PostgresError.self) {
                try await connection.pipeline([(insert, [.int64(1)]), (divide, [.int64(0)]), (insert, [.int64(2)])])
            }
            #expect(error?.sqlState == "22012")
            #expect(error?.statementName == "divide")
            let rows = try await connection.query(count).int64(0, 0)
            #expect(rows == 0)
        }
    }

    @Test func `a pipeline within a transaction commits with it`() async throws {
        try await withTable { connection in
            try await connection.transaction { connection in
                _ = try await connection.pipeline([(insert, [.int64(1)]), (insert, [.int64(2)])])
                _ = try await connection.pipeline([(insert, [.int64(3)])])
            }
            let rows = try await connection.query(count).int64(0, 0)
            #expect(rows == 3)
        }
    }

    @Test func `a pipeline over its deadline is cancelled, undone, and the connection lives on`() async throws {
        try await withTable { connection in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.pipeline(
                    [(insert, [.int64(1)]), (sql("SELECT pg_sleep(60)"), []), (insert, [.int64(2)])],
                    deadline: .milliseconds(50)
                )
            }
            #expect(error?.code == .deadline)
            let rows = try await connection.query(count).int64(0, 0)
            #expect(rows == 0)
        }
    }

    @Test func `a connection that breaks within a pipeline is closed`() async throws {
        try await withTable { connection in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.pipeline([
                    (insert, [.int64(1)]), (sql("SELECT pg_terminate_backend(pg_backend_pid())"), []),
                    (insert, [.int64(2)]),
                ])
            }
            #expect(error?.closesConnection == true)
            #expect(connection.condition == .closed)
        }
    }

    @Test func `large parameters and large results in one pipeline do not block each other`() async throws {
        try await withTable { connection in
            let megabytes = String(repeating: "x", count: 3_000_000)
            let echo = SQLStatement(name: "echo", text: "SELECT $1")
            let statements = Array(repeating: (echo, PostgresParameters([.text(megabytes)])), count: 10)
            let results = try await connection.pipeline(statements)
            let lengths = try results.map { try $0.withBytes(0, 0) { $0.count } }
            #expect(lengths == Array(repeating: 3_000_000, count: 10))
        }
    }

    private func withTable(_ body: (PostgresConnection) async throws -> Void) async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            try await connection.execute("CREATE TABLE t (a bigint)")
            try await body(connection)
        }
    }
}
