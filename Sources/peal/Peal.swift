import Glibc
import PealRuntime

/// The `peal` command.
@main
struct Peal {
    static func main() async {
        CrashReport.keepMemoryOut()
        let words = Array(CommandLine.arguments.dropFirst())
        let status = await CommandRunner.run(root: root, version: Version.current, words: words)
        exit(status.rawValue)
    }

    static let root = Command(
        group: "peal",
        summary: "batch send pipeline for push notifications on PostgreSQL",
        discussion: """
            The database is named by PEAL_DATABASE_URL, a libpq connection string or URI.
            Exit status: 0 done, 1 failed, 2 wrong command line, 3 no database, 4 input refused,
            5 nothing was delivered, 130 and 143 stopped by a signal.
            """,
        [
            .migrate, .doctor,
            Command(group: "app", summary: "add, list and change apps", [.appCreate, .appList, .appSet]),
            Command(
                group: "credential",
                summary: "the keys that apps sign in with at APNs and FCM",
                [.credentialAdd, .credentialVerify, .credentialList, .credentialRemove]
            ),
            Command(
                group: "device",
                summary: "import, show and remove devices",
                [.deviceImport, .deviceShow, .deviceList, .deviceRemove]
            ),
            .send,
            Command(
                group: "job",
                summary: "follow and steer sends",
                [.jobList, .jobStatus, .jobWatch, .jobCancel, .jobPause, .jobResume]
            ),
            .results,
            WorkerCommand.command,
            UpCommand.command,
            SimulateCommand.command,
            Command(
                "version",
                summary: "prints the version, as --version does",
                examples: [Example("peal version", "prints the version")]
            ) { _ in
                try StandardOutput.line("peal \(Version.current)")
                return .success
            },
        ]
    )
}

extension Positional {
    /// The slug of an app, which most commands begin with.
    static let app = Positional("APP", "the app's slug")
}
