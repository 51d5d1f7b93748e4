import PealRuntime
import PushCore

extension Command {
    static let jobList = Command(
        "list",
        summary: "lists jobs, the newest first",
        options: [
            Option("app", "SLUG", "only those of this app"),
            Option(
                "state",
                "NAME",
                "only these",
                choices: ["scheduled", "available", "running", "paused", "completed", "cancelled", "discarded"]
            ),
            Option("limit", "N", "at most so many (20)"),
            Option("before", "ID", "only those older than this job, to go on"),
            RowPrinter.formatOption,
        ],
        examples: [Example("peal job list --app shop --state running", "shows what shop sends now")]
    ) { arguments in
        let limit = try arguments.integer("limit", in: 1...10_000) ?? 20
        let before = try arguments.text("before").map { text throws(CommandError) in try jobID(text) }
        let connection = try await Database.open(purpose: "job list")
        if let slug = arguments.text("app") { _ = try await Apps(connection).find(slug) }
        let rows = try await Jobs(connection)
            .page(app: arguments.text("app"), state: arguments.text("state"), before: before, limit: limit)
        if arguments.text("format") ?? "table" == "table" {
            let shown = ["id", "app", "lane", "state", "audience", "accepted", "rejected", "remaining", "queued_at"]
            let places = shown.compactMap { Jobs.columns.firstIndex(of: $0) }
            var printer = RowPrinter(columns: shown, format: .table)
            try printer.print(rows.map { row in places.map { row[$0] } })
        } else {
            var printer = RowPrinter(columns: Jobs.columns, arguments: arguments)
            try printer.print(rows)
        }
        return .success
    }

    static let jobStatus = Command(
        "status",
        summary: "shows a job: its state and every count",
        positionals: [.job],
        options: [Option("format", "FORMAT", "how it is printed", choices: ["text", "json"])],
        examples: [Example("peal job status 0193…", "shows the counts by outcome, and the reasons")]
    ) { arguments in
        let id = try jobID(arguments.positional("ID"))
        let connection = try await Database.open(purpose: "job status")
        let status = try await Jobs(connection).status(id)
        if arguments.text("format") == "json" {
            try StandardOutput.object(status.cells)
        } else {
            let width = status.cells.map(\.0.count).max() ?? 0
            for (name, cell) in status.cells where cell != .null {
                let padding = String(repeating: " ", count: width - name.count)
                try StandardOutput.line("\(name)\(padding)  \(cell.plainText)")
            }
        }
        return .success
    }

    static let jobWatch = Command(
        "watch",
        summary: "shows the progress of a job until it has ended",
        discussion: """
            A bar with rate and time left on a terminal, plain lines when piped. Standard output says how it ended,
            and a line below why recipients were not reached; the exit status is 5 when nothing was accepted by a provider.
            """,
        positionals: [.job],
        options: [Option("format", "FORMAT", "how the end is printed", choices: ["text", "json"])],
        examples: [Example("peal job watch 0193…", "follows the job")]
    ) { arguments in
        let id = try jobID(arguments.positional("ID"))
        let connection = try await Database.open(purpose: "job watch")
        let status = try await JobWatch(Jobs(connection)).run(id)
        return try finish(status, asJSON: arguments.text("format") == "json")
    }

    static let jobCancel = steering(
        .cancel,
        summary: "stops a job for good",
        effect: "sends nothing more from the next second on; what is on the wire is counted"
    )
    static let jobPause = steering(
        .pause,
        summary: "holds a job where it is",
        effect: "sends nothing until it is resumed"
    )
    static let jobResume = steering(.resume, summary: "goes on with a paused job", effect: "goes on where it stopped")

    private static func steering(_ steering: Jobs.Steering, summary: String, effect: String) -> Command {
        Command(
            steering.rawValue,
            summary: summary,
            positionals: [.job],
            examples: [Example("peal job \(steering.rawValue) 0193…", effect)]
        ) { arguments in
            let id = try jobID(arguments.positional("ID"))
            let connection = try await Database.open(purpose: "job \(steering.rawValue)")
            let state = try await Jobs(connection).steer(id, steering)
            try StandardOutput.line("\(id) \(state)")
            if let reason = steering.idleReason(stateAfter: state) {
                StandardOutput.error("peal: nothing happened: \(reason)")
            }
            return .success
        }
    }
}

extension Positional {
    /// The id of a job.
    static let job = Positional("ID", "the job's id, as 'peal send' printed it")
}

/// Reads the id of a job. Throws a usage error for anything but a UUID.
func jobID(_ text: String) throws(CommandError) -> JobID {
    guard let value = UUIDValue(text) else {
        throw CommandError(.usage, "'\(text)' is not the id of a job", advice: "'peal job list' shows the newest")
    }
    return JobID(value)
}
