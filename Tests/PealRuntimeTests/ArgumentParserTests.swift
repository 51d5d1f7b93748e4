import PealRuntime
import Testing

@Suite struct ArgumentParserTests {
    private static let root = Command(
        group: "peal",
        summary: "test",
        [
            Command(
                group: "device",
                summary: "devices",
                [
                    Command(
                        "import",
                        summary: "imports devices",
                        positionals: [Positional("APP", "the app"), Positional("FILE", "the file", isRequired: false)],
                        options: [
                            Option("format", "F", "how", choices: ["table", "csv"]),
                            Option("ttl", "S", "seconds"),
                            Option("outcome", "O", "only these", isRepeated: true),
                            Option(flag: "resume", "go on"),
                        ],
                        examples: [Example("peal device import shop a.csv", "imports a.csv")]
                    ) { _ in .success }
                ]
            ),
            Command(
                "send",
                summary: "sends",
                options: [Option("audience", "JSON", "to whom", isRequired: true)],
                examples: []
            ) { _ in .success },
        ]
    )

    private func arguments(_ words: String...) throws -> ParsedArguments {
        let request = try ArgumentParser(root: Self.root).parse(words)
        guard case .run(_, let arguments) = request else { throw CommandError(.failure, "no command: \(request)") }
        return arguments
    }

    private func failure(_ words: String...) -> CommandError? {
        #expect(throws: CommandError.self) { try ArgumentParser(root: Self.root).parse(words) }
    }

    @Test func `options take their value after a space or an equals sign, before and after positionals`() throws {
        let parsed = try arguments("device", "import", "--format=csv", "shop", "--ttl", "30", "a.csv", "--resume")
        #expect(parsed.positional("APP") == "shop")
        #expect(parsed.positionals("FILE") == ["a.csv"])
        #expect(parsed.text("format") == "csv")
        #expect(try parsed.integer("ttl", in: 0...60) == 30)
        #expect(parsed.flag("resume"))
        #expect(parsed.values("outcome").isEmpty)
    }

    @Test func `a repeated option keeps every value, and two dashes end the options`() throws {
        let parsed = try arguments("device", "import", "--outcome", "a", "--outcome=b", "--", "--odd", "-")
        #expect(parsed.values("outcome") == ["a", "b"])
        #expect(parsed.positional("APP") == "--odd")
        #expect(parsed.positionals("FILE") == ["-"])
    }

    @Test func `an unknown option names the nearest one`() {
        let error = failure("device", "import", "shop", "--fromat", "csv")
        #expect(error?.status == .usage)
        #expect(error?.description.contains("unknown option --fromat") == true)
        #expect(error?.description.contains("Did you mean --format?") == true)
    }

    @Test func `an unknown command names the nearest one`() {
        #expect(failure("devcie", "import")?.description.contains("Did you mean 'device'?") == true)
        #expect(failure("device", "frobnicate")?.description.contains("Did you mean") == false)
    }

    @Test(arguments: [
        (["device", "import"], "APP is missing"),
        (["device", "import", "a", "b", "c"], "'c' is one word too many"),
        (["device", "import", "a", "--format", "xml"], "'xml' is none of table, csv"),
        (["device", "import", "a", "--ttl"], "needs a value S"),
        (["device", "import", "a", "--ttl", "--resume"], "needs a value S"),
        (["device", "import", "a", "--ttl", "1", "--ttl", "2"], "given twice"),
        (["device", "import", "a", "--resume=yes"], "takes no value"),
        (["send"], "--audience is missing"),
        (["--verbose"], "unknown option '--verbose'"),
    ])
    func `a wrong command line says what is wrong`(words: [String], text: String) {
        let error = #expect(throws: CommandError.self) { try ArgumentParser(root: Self.root).parse(words) }
        #expect(error?.status == .usage)
        #expect(error?.description.contains(text) == true, "\(String(describing: error))")
    }

    @Test func `a number out of range is a usage error that names the range`() throws {
        let parsed = try arguments("device", "import", "shop", "--ttl=61")
        let error = #expect(throws: CommandError.self) { try parsed.integer("ttl", in: 0...60) }
        #expect(error?.description == "'61' is not a whole number from 0 to 60; --ttl")
    }

    @Test(arguments: [
        [], ["--help"], ["help"], ["help", "device"], ["device", "--help"], ["help", "device", "import"],
        ["device", "import", "-h"], ["device", "import", "shop", "--help"],
    ])
    func `help is found on every level`(words: [String]) throws {
        guard case .help(let command, let path) = try ArgumentParser(root: Self.root).parse(words) else {
            Issue.record("\(words) is not help")
            return
        }
        let text = CommandHelp.text(for: command, path: path)
        #expect(text.contains("Usage: \(path.joined(separator: " "))"))
    }

    @Test func `a group without its command is a wrong command line that names its commands`() {
        let error = #expect(throws: CommandError.self) { try ArgumentParser(root: Self.root).parse(["device"]) }
        #expect(error?.status == .usage)
        #expect(error?.description == "one of import is missing; peal device; See peal device --help")
    }

    @Test func `help shows arguments, options, choices and examples`() throws {
        guard
            case .help(let command, let path) = try ArgumentParser(root: Self.root).parse(["help", "device", "import"])
        else {
            Issue.record("not help")
            return
        }
        let text = CommandHelp.text(for: command, path: path)
        #expect(text.contains("Usage: peal device import APP [FILE] [options]"))
        #expect(text.contains("--format F"))
        #expect(text.contains("(table, csv)"))
        #expect(text.contains("peal device import shop a.csv"))
    }

    @Test func `the version is asked for on the first level only`() throws {
        guard case .version = try ArgumentParser(root: Self.root).parse(["--version"]) else {
            Issue.record("no version")
            return
        }
        #expect(failure("device", "--version") != nil)
    }
}
