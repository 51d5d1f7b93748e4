import Glibc
import PealRuntime

/// Measures what peal costs in its own code. `ops/bench` runs it beside its yardsticks; docs/performance.md says what
/// came of it. Meaningful in release only: `swift run -c release PealBenchmarks messages`.
@main
struct PealBenchmarks {
    static func main() async {
        let words = Array(CommandLine.arguments.dropFirst())
        let status = await CommandRunner.run(root: root, version: Version.current, words: words)
        exit(status.rawValue)
    }

    private static let root = Command(
        group: "PealBenchmarks",
        summary: "what peal costs in its own code",
        discussion: "Counts every heap allocation of the process, which makes it a little slower than peal is.",
        [MessageCosts.command, HTTP2Load.command, CountedWorker.command]
    )
}
