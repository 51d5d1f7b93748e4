import PealRuntime

extension Command {
    static let credentialList = Command(
        "list",
        summary: "lists credentials, without their keys",
        positionals: [Positional("APP", "the app's slug; all apps when left out", isRequired: false)],
        options: [RowPrinter.formatOption],
        examples: [Example("peal credential list shop", "shows what shop signs in with, and whether it was refused")]
    ) { arguments in
        let connection = try await Database.open(purpose: "credential list")
        let slug = arguments.positionals("APP").first
        if let slug { _ = try await Apps(connection).find(slug) }
        let rows = try await Credentials(connection).list(slug: slug)
        if arguments.text("format") ?? "table" == "table" {
            // The columns that tell credentials apart fit a terminal; the other formats have them all.
            let shown = ["id", "app", "provider", "environment", "key_id", "topic", "project_id", "endpoint", "state"]
            let places = shown.compactMap { Credentials.columns.firstIndex(of: $0) }
            var printer = RowPrinter(columns: shown, format: .table)
            try printer.print(rows.map { row in places.map { row[$0] } })
        } else {
            var printer = RowPrinter(columns: Credentials.columns, arguments: arguments)
            try printer.print(rows)
        }
        return .success
    }
}
