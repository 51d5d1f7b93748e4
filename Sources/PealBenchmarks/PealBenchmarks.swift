import Glibc
import PealRuntime

/// Measures what peal costs in its own code. `ops/bench` runs it beside its yardsticks; docs/performance.md says what
/// came of it. Meaningful in release only: `swift run -c release PealBenchmarks messages`.
@main
struct PealBenchmarks {
    // Not `async`: that would end the main thread (dispatch_main), which valgrind does not survive.
    static func main() {
        let words = Array(CommandLine.arguments.dropFirst())
        Task.detached {
            let status = await CommandRunner.run(root: root, version: Version.current, words: words)
            exit(status.rawValue)
        }
        while true { pause() }
    }

    private static let root = Command(
        group: "PealBenchmarks",
        summary: "what peal costs in its own code",
        [MessageCosts.command, HTTP2Load.command, CountedWorker.command]
    )
}
