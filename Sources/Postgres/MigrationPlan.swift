package import PushCore

/// A row of `peal.schema_version`: a migration that the database has had.
package struct AppliedMigration: Sendable, Equatable {
    package let number: Int32
    package let name: String
    package let isBreaking: Bool

    package init(number: Int32, name: String, isBreaking: Bool) {
        self.number = number
        self.name = name
        self.isBreaking = isBreaking
    }
}

/// Compares what a database has had with what this binary knows.
package struct MigrationPlan: Sendable {
    /// What the database still lacks, in order.
    package let pending: [SQLMigration]
    /// What it has had that this binary does not know, in order.
    package let unknown: [AppliedMigration]

    /// Throws `.schema` when the two tell different stories: a gap, another name under the same number.
    package init(known: [SQLMigration], applied: [AppliedMigration]) throws(PostgresError) {
        for (position, migration) in known.enumerated() where Int(migration.number) != position + 1 {
            preconditionFailure("migration \(migration.number) stands at place \(position + 1)")
        }
        for (position, row) in applied.enumerated() {
            guard Int(row.number) == position + 1 else {
                throw Self.error(
                    "its migration \(position + 1) is missing while \(row.number) is there",
                    hint: Self.otherHistoryHint
                )
            }
            guard position >= known.count || known[position].name == row.name else {
                throw Self.error(
                    "its migration \(row.number) is called \(row.name), this binary's \(known[position].name)",
                    hint: Self.otherHistoryHint
                )
            }
        }
        pending = Array(known.dropFirst(applied.count))
        unknown = Array(applied.dropFirst(known.count))
    }

    /// Throws `.schema` unless this binary may work with the database: nothing is pending, and what is unknown is said
    /// not to break older binaries.
    package func checkCanRun() throws(PostgresError) {
        if let first = pending.first {
            throw Self.error("it lacks migration \(first.number) (\(first.name))", hint: "run: peal migrate")
        }
        if let breaking = unknown.first(where: \.isBreaking) {
            throw Self.error(
                "its migration \(breaking.number) (\(breaking.name)) needs a newer binary",
                hint: "update this binary"
            )
        }
    }

    /// Throws `.schema` when the database is newer than this binary: then there is nothing here to bring it forward.
    package func checkCanMigrate() throws(PostgresError) {
        guard let newest = unknown.last else { return }
        throw Self.error(
            "its migration \(newest.number) (\(newest.name)) is newer than this binary",
            hint: "update this binary, or migrate with the newer one"
        )
    }

    private static let otherHistoryHint = "update this binary to the version that migrated the database"

    private static func error(_ message: String, hint: String) -> PostgresError {
        PostgresError(.schema, activity: "use the schema of the database", message: message, hint: hint)
    }
}
