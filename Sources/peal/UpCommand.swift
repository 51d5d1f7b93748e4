import PealRuntime
import PushCore
import Telemetry

/// `peal up`: everything in one process, on a PostgreSQL of its own.
enum UpCommand {
    static let command = Command(
        "up",
        summary: "run everything in one process, on a PostgreSQL of its own",
        discussion: """
            Makes what is absent in the data directory: a private PostgreSQL server on a Unix socket, the schema, a master
            key. Other commands reach it after '. DIR/env'. Stops like 'peal worker', and the server with it.
            """,
        options: [Option("data", "DIR", "where it keeps everything; default ./peal-data")] + WorkerCommand.options,
        examples: [
            Example("peal up", "starts, with all data in ./peal-data"),
            Example(". peal-data/env && peal app list", "talks to it from another terminal"),
        ]
    ) { arguments in
        try await run(arguments)
    }

    @concurrent
    private static func run(_ arguments: ParsedArguments) async throws -> ExitStatus {
        let choices = try WorkerChoices(arguments)
        let settings = Settings.fromEnvironment()
        let logger = try settings.logger()
        let caFile = try settings.usableCAFile()
        let retentionDays = try settings.retentionDays()
        let signals = ShutdownSignals()
        let directory = arguments.text("data") ?? "peal-data"
        StandardOutput.error("peal: starting PostgreSQL in \(directory)")
        let database = try await EmbeddedDatabase.start(directory: directory, settings: settings, logger: logger)
        do {
            var configuration = WorkerConfiguration(
                database: WorkerCommand.database(database.url, logger: logger),
                logger: logger
            )
            choices.apply(to: &configuration)
            configuration.masterKey = database.masterKey
            // What was sealed under a lost key can be removed only while this runs.
            configuration.beginsWithForeignKey = true
            configuration.caFile = caFile
            configuration.retentionDays = retentionDays
            let worker = try Worker(configuration)
            StandardOutput.error("peal: up; in another terminal: . \(database.environmentFile)")
            try await run(worker, on: database, signals: signals, logger: logger)
        } catch {
            try await database.stop()
            throw error
        }
        try await database.stop()
        StandardOutput.error("peal: stopped")
        return .success
    }

    /// Works until it is told to stop, or has no server any more.
    private static func run(
        _ worker: Worker,
        on database: EmbeddedDatabase,
        signals: sending ShutdownSignals,
        logger: Logger
    ) async throws {
        let watch = Task {
            try await database.waitUntilEnded()
            StandardOutput.error("peal: PostgreSQL has ended; stopping")
            await worker.stopNow()
        }
        var failure: (any Error)?
        do { _ = try await WorkerProcess.run(worker, signals: signals, logger: logger) } catch { failure = error }
        watch.cancel()
        // Its connections break before a server that was killed is seen to have ended.
        if let lastWords = await database.lastWords(within: failure == nil ? .zero : .seconds(2)) {
            throw CommandError(
                .databaseUnreachable,
                "PostgreSQL ended by itself",
                at: lastWords,
                advice: "start 'peal up' again; what was committed is there"
            )
        }
        if let failure { throw failure }
    }
}
