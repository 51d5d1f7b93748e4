import Glibc
import PealRuntime

@main
struct Peal {
    static func main() async {
        let status = await CommandRunner.run(
            root: root,
            version: Version.current,
            words: Array(CommandLine.arguments.dropFirst())
        )
        exit(status.rawValue)
    }

    static let root = Command(
        group: "peal",
        summary: "batch send pipeline for push notifications on PostgreSQL",
        [SimulateCommand.command]
    )
}
