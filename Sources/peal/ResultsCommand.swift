import PealRuntime

extension Command {
    static let results = Command(
        "results",
        summary: "prints what became of each recipient of a job",
        discussion:
            "Rows come in the order in which they were recorded. A job that still runs has those recorded so far.",
        positionals: [.job],
        options: [
            RowPrinter.formatOption,
            Option("outcome", "NAME", "only these", choices: Results.outcomes),
            Option("limit", "N", "at most so many"),
        ],
        examples: [
            Example("peal results 0193… --format csv > results.csv", "writes every result as CSV"),
            Example("peal results 0193… --outcome rejected", "shows who was rejected, and why"),
        ]
    ) { arguments in
        let id = try jobID(arguments.positional("ID"))
        let limit = try arguments.integer("limit", in: 1...Int(Int32.max))
        let connection = try await Database.open(purpose: "results")
        _ = try await Jobs(connection).status(id)
        var printer = RowPrinter(columns: Results.columns, arguments: arguments, shortened: Results.longColumns)
        let results = Results(connection)
        _ = try await results.read(id, outcome: arguments.text("outcome"), limit: limit) { try printer.print($0) }
        return .success
    }
}
