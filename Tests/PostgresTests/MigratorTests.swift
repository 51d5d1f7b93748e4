import Glibc
import Postgres
import PushCore
import SQLText
import Telemetry
import TestSupport
import Testing

@Suite struct MigratorTests {
    @Test func `the schema of this binary is applied once and then checked`() async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            let migrator = makeMigrator(SQLText.migrations)
            await #expect(throws: PostgresError.self) { try await migrator.schemaRangeCheck(connection) }
            #expect(try await migrator.migrate(connection).map(\.number) == SQLText.migrations.map(\.number))
            try await migrator.schemaRangeCheck(connection)
            #expect(try await migrator.migrate(connection).isEmpty)
        }
    }

    @Test func `the list of migrations holds every file of sql slash migrations`() throws {
        let directory = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        let stream = unsafe try #require(opendir("/\(directory)/sql/migrations"))
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
                unsafe String(cString: UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self))
            }
            if name.hasSuffix(".sql") { names.append(name) }
        }
        let listed = SQLText.migrations.map { migration in
            let number = String(migration.number)
            return String(repeating: "0", count: 4 - number.count) + "\(number)_\(migration.name).sql"
        }
        #expect(names.sorted() == listed)
    }

    @Test func `two migrators at once apply each step once`() async throws {
        try await withEmptyDatabase { database in
            let migrations = (1...6).map { step in
                SQLMigration(
                    number: Int32(step),
                    name: "step\(step)",
                    text: "CREATE TABLE peal.step\(step) (a int); SELECT pg_sleep(0.02);"
                )
            }
            let connections = [try await database.connect(), try await database.connect()]
            let applied = try await withThrowingTaskGroup(of: [Int32].self) { group in
                for connection in connections {
                    group.addTask { try await makeMigrator(migrations).migrate(connection).map(\.number) }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(applied.sorted() == [1, 2, 3, 4, 5, 6])
        }
    }

    @Test func `a failing step leaves nothing behind and names itself`() async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            let broken = [
                SQLMigration(number: 1, name: "make_a", text: "CREATE TABLE peal.a (a int)"),
                SQLMigration(number: 2, name: "make_b", text: "CREATE TABLE peal.b (a int); SELECT nothing;"),
            ]
            let error = await #expect(throws: PostgresError.self) {
                try await makeMigrator(broken).migrate(connection)
            }
            #expect(error?.sqlState == "42703")
            #expect(error?.description.contains("2_make_b") == true)
            let mended = [broken[0], SQLMigration(number: 2, name: "make_b", text: "CREATE TABLE peal.b (a int)")]
            #expect(try await makeMigrator(mended).migrate(connection).map(\.number) == [2])
        }
    }

    @Test func `a newer database is refused, and run against only if the newer steps break nothing`() async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            let first = SQLMigration(number: 1, name: "one", text: "SELECT 1")
            let harmless = SQLMigration(number: 2, name: "two", text: "SELECT 1")
            let breaking = SQLMigration(number: 3, name: "three", text: "-- breaking\nSELECT 1")
            try await makeMigrator([first, harmless]).migrate(connection)
            let old = makeMigrator([first])
            try await old.schemaRangeCheck(connection)
            let newer = await #expect(throws: PostgresError.self) { try await old.migrate(connection) }
            #expect(newer?.code == .schema)
            try await makeMigrator([first, harmless, breaking]).migrate(connection)
            let refused = await #expect(throws: PostgresError.self) { try await old.schemaRangeCheck(connection) }
            #expect(refused?.code == .schema)
        }
    }

    private func makeMigrator(_ migrations: [SQLMigration]) -> Migrator {
        Migrator(
            migrations: migrations,
            statements: SQLText.migratorStatements,
            logger: Logger(level: .warning)
        )
    }
}

@Suite struct MigrationPlanTests {
    private let known = ["one", "two", "three"].enumerated().map { position, name in
        SQLMigration(number: Int32(position + 1), name: name, text: "")
    }

    @Test func `what the database lacks is pending`() throws {
        let plan = try MigrationPlan(known: known, applied: [applied(1, "one")])
        #expect(plan.pending.map(\.number) == [2, 3])
        #expect(plan.unknown.isEmpty)
        #expect(throws: PostgresError.self) { try plan.checkCanRun() }
    }

    @Test func `another name under the same number stops everything`() {
        #expect(throws: PostgresError.self) {
            try MigrationPlan(known: known, applied: [applied(1, "one"), applied(2, "too")])
        }
    }

    @Test func `a gap stops everything`() {
        #expect(throws: PostgresError.self) {
            try MigrationPlan(known: known, applied: [applied(1, "one"), applied(3, "three")])
        }
    }

    private func applied(_ number: Int32, _ name: String) -> AppliedMigration {
        AppliedMigration(number: number, name: name, isBreaking: false)
    }
}
