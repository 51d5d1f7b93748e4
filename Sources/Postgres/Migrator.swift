package import PushCore
package import Telemetry

/// Brings the schema of a database to what this binary knows, one migration a transaction.
///
/// Any number may run at once: a lock that ends with each transaction makes the others wait, and then find it done.
package struct Migrator: Sendable {
    private let migrations: [SQLMigration]
    private let statements: MigratorStatements
    private let logger: Logger
    /// The time for each migration, and for waiting until another migrator has done it.
    package var stepDeadline: Duration = .seconds(600)

    package init(migrations: [SQLMigration], statements: MigratorStatements, logger: Logger) {
        self.migrations = migrations
        self.statements = statements
        self.logger = logger
    }

    /// Applies what is missing and returns it. Throws `.schema` when the database is newer or has another history.
    @discardableResult
    package func migrate(_ connection: PostgresConnection) async throws -> [SQLMigration] {
        var applied: [SQLMigration] = []
        while let migration = try await applyNext(connection) {
            applied.append(migration)
            logger.info(
                "migration applied",
                [.migrationNumber: .number(migration.number), .migrationName: .text(migration.name)]
            )
        }
        return applied
    }

    /// Throws `.schema` unless this binary may work with the database as it is. Changes nothing.
    package func schemaRangeCheck(_ connection: PostgresConnection) async throws {
        let applied = try await readVersions(connection)
        try MigrationPlan(known: migrations, applied: applied).checkCanRun()
    }

    /// What the database has had: nothing, if it lacks the table or the schema.
    private func readVersions(_ connection: PostgresConnection) async throws(PostgresError) -> [AppliedMigration] {
        let rows: PostgresRows
        do throws(PostgresError) {
            rows = try await connection.query(statements.readVersions)
        } catch {
            guard error.sqlState == .undefinedTable || error.sqlState == .undefinedSchema else { throw error }
            return []
        }
        return try Self.appliedMigrations(rows)
    }

    /// Applies the first missing migration and returns it; nil when none is missing.
    private func applyNext(_ connection: PostgresConnection) async throws -> SQLMigration? {
        try await connection.transaction { connection in
            try await connection.query(statements.lock, deadline: stepDeadline)
            try await connection.query(statements.limitLockWaits)
            try await connection.query(statements.createSchema)
            try await connection.query(statements.createVersionTable)
            let applied = try Self.appliedMigrations(await connection.query(statements.readVersions))
            let plan = try MigrationPlan(known: migrations, applied: applied)
            try plan.checkCanMigrate()
            guard let next = plan.pending.first else { return nil }
            try await connection.query(
                statements.insertVersion,
                [.int32(next.number), .text(next.name), .bool(next.isBreaking)]
            )
            try await connection.execute(next.text, named: "\(next.number)_\(next.name)", deadline: stepDeadline)
            return next
        }
    }

    private static func appliedMigrations(_ rows: PostgresRows) throws(PostgresError) -> [AppliedMigration] {
        var applied: [AppliedMigration] = []
        for row in rows.indices {
            applied.append(
                AppliedMigration(
                    number: try rows.int32(row, 0),
                    name: try rows.text(row, 1),
                    isBreaking: try rows.bool(row, 2)
                )
            )
        }
        return applied
    }
}
