import PealRuntime
import Postgres
import Testing

@Suite struct CommandRunnerTests {
    private struct Odd: Error {}

    private func status(_ error: (any Error)?, words: [String] = ["work"]) async -> PealRuntime.ExitStatus {
        let command = Command("work", summary: "works", examples: []) { _ in
            if let error { throw error }
            return .success
        }
        return await CommandRunner.run(
            root: Command(group: "peal", summary: "test", [command]),
            version: "1",
            words: words
        )
    }

    @Test func `each kind of failure has its own exit status`() async {
        let server = { (state: SQLState) in
            PostgresError(.server(state), activity: "run a statement", message: "no")
        }
        #expect(await status(nil) == .success)
        #expect(await status(Odd()) == .failure)
        #expect(await status(CommandError(.notDelivered, "no")) == .notDelivered)
        #expect(await status(PostgresError(.connection, activity: "connect", message: "no")) == .databaseUnreachable)
        #expect(await status(PostgresError(.schema, activity: "use the schema", message: "no")) == .failure)
        #expect(await status(server("57P01")) == .databaseUnreachable)
        #expect(await status(server("22023")) == .refused)
        #expect(await status(server("23505")) == .refused)
        #expect(await status(server("P0002")) == .refused)
        #expect(await status(server("XX000")) == .failure)
        #expect(await status(nil, words: ["wrok"]) == .usage)
        #expect(await status(nil, words: ["work", "more"]) == .usage)
        #expect(await status(nil, words: ["work", "--help"]) == .success)
    }

    @Test func `the numbers of the exit statuses are a contract`() {
        let numbers: [(PealRuntime.ExitStatus, Int32)] = [
            (.success, 0), (.failure, 1), (.usage, 2), (.databaseUnreachable, 3), (.refused, 4), (.notDelivered, 5),
            (.interrupted, 130), (.outputClosed, 141), (.terminated, 143),
        ]
        for (status, number) in numbers { #expect(status.rawValue == number) }
    }

    @Test func `a refusal keeps the server's words and its hint`() {
        let error = PostgresError(
            .server("22023"),
            activity: "run admin_insert_job",
            message: "audience.segment is not known (did you mean segments?)",
            hint: "Known keys: all."
        )
        let text = CommandError(describing: error).description
        #expect(text == "audience.segment is not known (did you mean segments?); Known keys: all.")
    }
}
