/// One step of the schema: a file of `sql/migrations`, several statements, applied in one transaction.
package struct SQLMigration: Sendable {
    /// Its place in the order, counted from 1 without gaps.
    package let number: Int32
    /// The file's name after the number, such as `create_schema`.
    package let name: String
    /// The script.
    package let text: String

    package init(number: Int32, name: String, text: String) {
        self.number = number
        self.name = name
        self.text = text
    }

    /// Whether binaries that do not know this step must stop: line one is `-- breaking`.
    package var isBreaking: Bool {
        text.prefix { $0 != "\n" } == "-- breaking"
    }
}

/// The statements with which the migrator keeps its own table.
package struct MigratorStatements: Sendable {
    /// Waits for other migrators; the lock ends with the transaction.
    package let lock: SQLStatement
    /// Bounds how long a migration may wait for a table lock, and hold up others behind it.
    package let limitLockWaits: SQLStatement
    package let createSchema: SQLStatement
    package let createVersionTable: SQLStatement
    /// Rows in order of number: number int4, name text, is_breaking bool.
    package let readVersions: SQLStatement
    /// $1 number int4, $2 name text, $3 is_breaking bool.
    package let insertVersion: SQLStatement

    package init(
        lock: SQLStatement,
        limitLockWaits: SQLStatement,
        createSchema: SQLStatement,
        createVersionTable: SQLStatement,
        readVersions: SQLStatement,
        insertVersion: SQLStatement
    ) {
        self.lock = lock
        self.limitLockWaits = limitLockWaits
        self.createSchema = createSchema
        self.createVersionTable = createVersionTable
        self.readVersions = readVersions
        self.insertVersion = insertVersion
    }
}
