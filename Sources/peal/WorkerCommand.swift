import PealRuntime
import Postgres
import PushCore
import Telemetry

/// `peal worker`: a process that does peal's work, beside as many others as one likes.
enum WorkerCommand {
    static let options = [
        Option(
            "roles",
            "LIST",
            "comma-separated: \(WorkerRole.allCases.map(\.rawValue).joined(separator: ", ")); default all"
        ),
        Option(
            "lanes",
            "LIST",
            "lanes that delivery serves: \(Lane.allCases.map(\.name).joined(separator: ", ")); default all"
        ),
        Option("drain", "SECONDS", "how long a graceful stop waits for answers, 0 to 600; default 20"),
    ]

    static let command = Command(
        "worker",
        summary: "do the work: fan out, deliver, write results",
        discussion: """
            Runs until SIGTERM or Ctrl-C. The first stops gracefully: nothing more is claimed, what is on the wire is
            waited for up to --drain, results are written, leases are given up. The second stops at once and still
            writes what is settled. A worker that is killed loses nothing: another takes over when its lease ends.
            """,
        options: options,
        examples: [
            Example("peal worker", "does everything in one process"),
            Example("peal worker --roles delivery --lanes call,transactional", "serves urgent pushes alone"),
        ]
    ) { arguments in
        try await run(arguments)
    }

    @concurrent
    private static func run(_ arguments: ParsedArguments) async throws -> ExitStatus {
        let choices = try WorkerChoices(arguments)
        let settings = Settings.fromEnvironment()
        let logger = try settings.logger()
        var configuration = WorkerConfiguration(
            database: database(try settings.requireDatabaseURL(), logger: logger),
            directDatabase: database(try settings.requireDirectDatabaseURL(), logger: logger),
            logger: logger
        )
        choices.apply(to: &configuration)
        if configuration.roles.contains(.delivery) { configuration.masterKey = try settings.requireMasterKey() }
        configuration.caFile = try settings.usableCAFile()
        configuration.retentionDays = try settings.retentionDays()
        let signals = ShutdownSignals()
        let worker = try Worker(configuration)
        _ = try await WorkerProcess.run(worker, signals: signals, logger: logger)
        logger.info("worker stopped")
        return .success
    }

    /// The connection settings of a working process.
    static func database(_ url: String, logger: Logger) -> PostgresConfiguration {
        PostgresConfiguration(url, applicationName: "peal worker", logger: logger)
    }
}
