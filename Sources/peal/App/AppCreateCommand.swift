import PealRuntime

extension Command {
    static let appCreate = Command(
        "create",
        summary: "adds an app",
        positionals: [Positional("SLUG", "its name in commands and jobs: a-z, 0-9, - and _, at most 63")],
        options: [Option("name", "TEXT", "its name for people")],
        examples: [Example("peal app create shop --name 'The Shop'", "adds the app that jobs call shop")]
    ) { arguments in
        let connection = try await Database.open(purpose: "app create")
        let slug = arguments.positional("SLUG")
        try await Apps(connection).create(slug: slug, name: arguments.text("name"))
        try StandardOutput.line("app \(slug) is there; next: peal credential add \(slug) apns|fcm …")
        return .success
    }
}
