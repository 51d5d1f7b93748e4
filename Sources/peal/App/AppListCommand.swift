import PealRuntime

extension Command {
    static let appList = Command(
        "list",
        summary: "lists the apps with their settings",
        options: [RowPrinter.formatOption],
        examples: [Example("peal app list --format jsonl", "prints one JSON object per app")]
    ) { arguments in
        let connection = try await Database.open(purpose: "app list")
        var printer = RowPrinter(columns: Apps.columns, arguments: arguments)
        try printer.print(try await Apps(connection).list())
        return .success
    }
}
