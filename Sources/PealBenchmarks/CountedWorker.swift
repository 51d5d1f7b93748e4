import CAllocationCounter
import Glibc
import PealRuntime
import Postgres
import Telemetry

/// `PealBenchmarks worker`: a `peal worker` that counts its allocations, so that those of the whole path of a message
/// (claim, look-up, rendering, sending, settling, COPY) can be told from the difference of two campaigns.
enum CountedWorker {
    static let command = Command(
        "worker",
        summary: "a peal worker with all roles that counts its allocations",
        discussion: """
            Configured by the environment like 'peal worker'. SIGUSR1 prints a line with the counts so far; SIGTERM stops it.
            """,
        examples: [Example("PealBenchmarks worker", "works until SIGTERM")]
    ) { _ in
        try await run()
    }

    @concurrent
    private static func run() async throws -> ExitStatus {
        callocationcounter_start()
        let settings = Settings.fromEnvironment()
        let logger = try settings.logger()
        var configuration = WorkerConfiguration(
            database: PostgresConfiguration(
                try settings.requireDatabaseURL(),
                applicationName: "peal worker",
                logger: logger
            ),
            logger: logger
        )
        configuration.masterKey = try settings.requireMasterKey()
        configuration.caFile = settings.caFile
        let signals = ShutdownSignals()
        signal(SIGUSR1) { _ in AllocationReport.write() }
        _ = try await WorkerProcess.run(try Worker(configuration), signals: signals, logger: logger)
        AllocationReport.write()
        return .success
    }
}

/// The counts as one line on standard output.
enum AllocationReport {
    /// Calls only what a signal handler may call, so the digits are made on the stack.
    static func write() {
        var line: InlineArray<64, UInt8> = .init(repeating: 0x20)
        put(callocationcounter_own(), endingAt: 30, in: &line)
        put(callocationcounter_total(), endingAt: 62, in: &line)
        line[63] = 0x0A
        unsafe line.span.withUnsafeBytes { bytes in
            _ = unsafe Glibc.write(STDOUT_FILENO, bytes.baseAddress, bytes.count)
        }
    }

    private static func put(_ number: UInt, endingAt end: Int, in line: inout InlineArray<64, UInt8>) {
        var rest = number
        var position = end
        repeat {
            line[position] = UInt8(0x30 + rest % 10)
            rest /= 10
            position -= 1
        } while rest > 0
    }
}
