import Postgres
import PushCore
import SQLText
import TestSupport
import Testing

/// Everything but LISTEN works through PgBouncer in transaction mode.
@Suite struct PgBouncerTests {
    @Test func `statements, transactions, pipelines and copies work, shared over two server connections`() async throws
    {
        try await withEmptyDatabase { database in
            try await withPgBouncer(database) { configuration in
                let direct = try await database.connect()
                try await direct.execute("CREATE TABLE t (a bigint, b text)")
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for client in 0..<8 {
                        group.addTask { try await work(configuration, client: Int64(client)) }
                    }
                    try await group.waitForAll()
                }
                let count = try await direct.query(sql("SELECT count(*) FROM t")).int64(0, 0)
                #expect(count == 8 * 10 * 5)
                let servers = try await direct.query(
                    sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
                )
                // Two of PgBouncer's, and this one.
                #expect(try servers.int64(0, 0) <= 3)
            }
        }
    }

    @Test func `a deadline cancels the right statement and leaves no setting behind`() async throws {
        try await withEmptyDatabase { database in
            try await withPgBouncer(database) { configuration in
                let connection = try await PostgresConnection.connect(configuration)
                let error = await #expect(throws: PostgresError.self) {
                    try await connection.query(sql("SELECT pg_sleep(60)"), deadline: .milliseconds(50))
                }
                #expect(error?.code == .deadline)
                let options = TransactionOptions(commitsAsynchronously: true)
                try await connection.transaction(options) { _ = try await $0.query(sql("SELECT 1")) }
                let setting = try await connection.query(sql("SELECT current_setting('synchronous_commit')"))
                #expect(try setting.text(0, 0) == "on")
            }
        }
    }

    @Test func `migrations and the pool work`() async throws {
        try await withEmptyDatabase { database in
            try await withPgBouncer(database) { configuration in
                let connection = try await PostgresConnection.connect(configuration)
                let migrator = Migrator(
                    migrations: SQLText.migrations,
                    statements: SQLText.migratorStatements,
                    logger: configuration.logger
                )
                try await migrator.migrate(connection)
                try await migrator.schemaRangeCheck(connection)
                var options = PostgresPoolOptions(maximumConnections: 3)
                options.checkAfterIdle = .zero
                let pool = PostgresPool(configuration, options, healthPing: SQLText.healthPing)
                for _ in 0..<10 { try await pool.query(SQLText.healthPing) }
                #expect(pool.counts.idle == 1)
                await pool.close()
            }
        }
    }

    private func work(_ configuration: PostgresConfiguration, client: Int64) async throws {
        let connection = try await PostgresConnection.connect(configuration)
        let insert = sql("INSERT INTO t VALUES ($1, $2)")
        var buffer = PostgresCopyBuffer()
        buffer.startRow(columnCount: 2)
        buffer.append(int64: client)
        buffer.append(text: "copied")
        let rows = buffer
        for _ in 0..<10 {
            try await connection.query(insert, [.int64(client), .text("one")])
            _ = try await connection.pipeline([
                (insert, [.int64(client), .text("two")]), (insert, [.int64(client), .text("three")]),
            ])
            try await connection.transaction { connection in
                try await connection.query(insert, [.int64(client), .text("four")])
                try await connection.copyIn(sql("COPY t FROM STDIN (FORMAT binary)"), rows: rows)
            }
        }
    }
}
