import PealRuntime
import PushCore

extension Command {
    static let migrate = Command(
        "migrate",
        summary: "creates the schema, or brings it up to this version",
        discussion: """
            Connects through PEAL_DIRECT_DATABASE_URL where it is set. Each migration is a transaction of its own; any
            number may run at once. A database that a newer peal has changed is left alone.
            """,
        examples: [Example("peal migrate", "creates what is missing in schema peal")]
    ) { _ in
        let applied = try await Database.migrate()
        for migration in applied { try StandardOutput.line("applied \(migration.number) \(migration.name)") }
        if applied.isEmpty { try StandardOutput.line("the schema is up to date") }
        return .success
    }
}
