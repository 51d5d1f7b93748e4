import PealRuntime

extension Command {
    static let appSet = Command(
        "set",
        summary: "changes settings of an app",
        discussion: """
            name                   its name for people
            weight                 its share when several apps want to send at once, 1 to 10000 (100)
            default_ttl            seconds that a job may wait when it names no ttl, 0 to 2419200 (259200)
            on_credential_failure  what a refused credential does to a send: fail, or hold until it expires (fail)
            """,
        positionals: [
            Positional("SLUG", "the app's slug"),
            Positional("KEY=VALUE", "a setting and its new value", isRepeated: true),
        ],
        examples: [Example("peal app set shop weight=200 default_ttl=3600", "doubles the share, keeps pushes an hour")]
    ) { arguments in
        let connection = try await Database.open(purpose: "app set")
        let slug = arguments.positional("SLUG")
        try await Apps(connection).set(slug, arguments.positionals("KEY=VALUE"))
        try StandardOutput.line("app \(slug) is changed")
        return .success
    }
}
