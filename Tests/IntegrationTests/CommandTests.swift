import Glibc
import Postgres
import PealRuntime
import ProviderSimulator
import PushCore
import TestSupport
import Testing

/// The `peal` command as a process.
@Suite struct CommandTests {
    @Test(.timeLimit(.minutes(4)))
    func `a wrong master key is named, and neither sends nor seals anything`() async throws {
        try await withPipeline { pipeline in
            var environment = pipeline.environment()
            environment["PEAL_MASTER_KEY"] = "not a key"
            let malformed = try await runPeal(["worker"], environment: environment)
            #expect(malformed.status == 4)
            #expect(malformed.output.contains("PEAL_MASTER_KEY"), "\(malformed.output)")
            environment["PEAL_MASTER_KEY"] = nil
            let missing = try await runPeal(["worker"], environment: environment)
            #expect(missing.status == 4)
            #expect(missing.output.contains("no master key is configured"), "\(missing.output)")

            environment["PEAL_MASTER_KEY"] = String(repeating: "77", count: 32)
            let script = """
                key=$(mktemp); openssl ecparam -genkey -noout -name prime256v1 | openssl pkcs8 -topk8 -nocrypt > $key
                peal credential add shop apns --key $key --key-id ABCDEFGHIJ --team-id ABCDEFGHIJ \
                    --topic com.example.shop --environment production; status=$?; rm $key; exit $status
                """
            let stored = try await pipeline.fixture.number("SELECT count(*) FROM peal.credential")
            let refusals = [
                try await runPeal(["worker"], environment: environment),
                try await runCommand(["sh", "-c", script], environment: environment),
            ]
            for refused in refusals {
                #expect(refused.status == 4, "\(refused.output)")
                #expect(refused.output.contains("the configured master key opens none of the"), "\(refused.output)")
                #expect(refused.output.contains("PEAL_MASTER_KEY or PEAL_MASTER_KEY_FILE"), "\(refused.output)")
                #expect(refused.output.contains("set the key that sealed them"), "\(refused.output)")
            }
            #expect(try await pipeline.fixture.number("SELECT count(*) FROM peal.credential") == stored)
            try await withPeal(["worker", "--roles", "scheduler,fanout"], environment: environment) { worker in
                try await worker.waitForOutput("worker started")
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a worker begins when only some credentials do not open, and says so`() async throws {
        try await withPipeline { pipeline in
            let stored = SQLStatement(
                name: "test",
                text: """
                    UPDATE peal.credential SET sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1)
                    WHERE id = (SELECT max(id) FROM peal.credential)
                    """
            )
            let connection = try await pipeline.database.connect()
            _ = try await connection.query(stored)
            await connection.close()
            try await withPeal(["worker"], environment: pipeline.environment()) { worker in
                try await worker.waitForOutput("Credentials do not open with this master key")
                try await worker.waitForOutput("worker started")
            }
        }
    }

    @Test(.timeLimit(.minutes(4)), arguments: [["worker"], ["up"], ["credential", "verify", "shop"]])
    func `a CA file that cannot be used is refused before anything is begun`(words: [String]) async throws {
        try await withScratchDirectory { directory in
            let environment = [
                "PEAL_CA_FILE": "/nonexistent/ca.pem", "PEAL_MASTER_KEY": Pipeline.masterKeyText,
                "PEAL_DATABASE_URL": "postgresql://postgres@/peal?host=/nonexistent",
            ]
            try await withPeal(words, environment: environment, in: directory) { peal in
                try await peal.expectExit(4)
                #expect(peal.output.contains("/nonexistent/ca.pem"), "\(peal.output)")
            }
            #expect(try await runCommand(["ls", directory]).output.isEmpty)
        }
    }

    @Test(
        .timeLimit(.minutes(4)),
        arguments: ["worker", "up"],
        [
            (["--lanes", ""], "--lanes"), (["--lanes=,"], "--lanes"), (["--lanes="], "--lanes"),
            (["--roles", ""], "--roles"), (["--roles", ","], "--roles"), (["--roles", "foo"], "--roles"),
            (["--roles", "fanout", "--lanes", "call"], "--lanes"), (["--drain", "x"], "--drain"),
        ]
    )
    func `an option of a worker is refused before a database is asked for or made`(
        command: String,
        wrong: (words: [String], option: String)
    ) async throws {
        try await withScratchDirectory { directory in
            let data = command == "up" ? ["--data", "\(directory)/data"] : []
            let result = try await runPeal([command] + data + wrong.words, environment: [:])
            #expect(result.status == 2, "\(result.output)")
            #expect(result.output.contains(wrong.option), "\(result.output)")
            #expect(try await runCommand(["ls", directory]).output.isEmpty)
        }
    }

    @Test(.enabled(if: geteuid() == 0), .timeLimit(.minutes(4)))
    func `peal up leaves nothing behind in a directory that PostgreSQL cannot enter`() async throws {
        try await withScratchDirectory { directory in
            unsafe chmod(directory, 0o700)
            let refused = try await runPeal(["up", "--data", "\(directory)/data"], environment: [:])
            #expect(refused.status == 1, "\(refused.output)")
            #expect(refused.output.contains("cannot enter \(directory)"), "\(refused.output)")
            #expect(try await runCommand(["ls", directory]).output.isEmpty)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a dry run does not wait for a send`() async throws {
        let words = ["send", "shop", "--audience", "{}", "--content", "{}", "--wait", "--dry-run"]
        let result = try await runPeal(words, environment: [:])
        #expect(result.status == 2, "\(result.output)")
        #expect(result.output.contains("--dry-run") && result.output.contains("--wait"), "\(result.output)")
    }

    @Test(.timeLimit(.minutes(4)))
    func `a simulator that does not start leaves nothing behind`() async throws {
        let taken = try ProviderSimulator.start()
        defer { taken.stop() }
        let port = taken.endpoint(.apnsProduction).port
        let cases: [(option: String, status: Int32, text: String)] = [
            ("--bind=nope", 2, "nope is not an IPv4 address"), ("--ledger=/nonexistent/x", 4, "/nonexistent/x"),
            ("--control=/nonexistent/x", 4, "/nonexistent/x"), ("--control=/dev/null", 4, "it is not JSON (at byte 0)"),
            ("--base-port=\(port)", 1, "choose another --base-port"),
        ]
        // Its files are told from those of other tests by a mode that nobody else gives.
        let script = """
            umask 0026; peal simulate "$1"; status=$?
            find /tmp -maxdepth 2 -path '/tmp/peal-simulator-*/ca.pem' -perm 0640 -printf 'left: %h\n'
            exit $status
            """
        for (option, status, text) in cases {
            let result = try await runCommand(["sh", "-c", script, "sh", option])
            #expect(result.status == status, "\(result.output)")
            #expect(result.output.contains(text), "\(result.output)")
            #expect(!result.output.contains("left: "), "\(result.output)")
        }
    }

    @Test(.timeLimit(.minutes(4)), arguments: [["worker"], ["app", "list"], ["migrate"], ["job", "list"]])
    func `a database that is down ends a command with status 3 and says what to check`(words: [String]) async throws {
        let environment = [
            "PEAL_DATABASE_URL": "postgresql://postgres@/peal?host=/nonexistent",
            "PEAL_MASTER_KEY": Pipeline.masterKeyText,
        ]
        let result = try await runPeal(words, environment: environment)
        #expect(result.status == 3)
        #expect(result.output.contains("check PEAL_DATABASE_URL"), "\(result.output)")
        let unset = try await runPeal(words, environment: [:])
        #expect(unset.status == 3)
        #expect(unset.output.contains("PEAL_DATABASE_URL is not set"), "\(unset.output)")
    }

    @Test(.timeLimit(.minutes(4)))
    func `an import that has nothing to import, or cannot, says so and no more`() async throws {
        try await withScratchDirectory { directory in
            try await withDatabase { database in
                let environment = ["PEAL_DATABASE_URL": database.connectionString]
                _ = try await runPeal(["app", "create", "shop"], environment: environment)
                let header = try await runCommand(
                    ["sh", "-c", "echo channel,token | peal device import shop -"],
                    environment: environment
                )
                #expect(header.status == 0)
                #expect(header.output == "nothing to import: - has a header and no rows\n")
                for path in [directory, "\(directory)/missing.csv", "/dev/null"] {
                    let result = try await runPeal(["device", "import", "shop", path], environment: environment)
                    #expect(result.status == 4, "\(result.output)")
                    #expect(result.output.hasPrefix("peal: "), "\(result.output)")
                    #expect(result.output.contains(path), "\(result.output)")
                }
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `an import never empties the file that it reads, under whatever name the report has`() async throws {
        try await withScratchDirectory { directory in
            try await withDatabase { database in
                let environment = ["PEAL_DATABASE_URL": database.connectionString]
                _ = try await runPeal(["app", "create", "shop"], environment: environment)
                let file = "\(directory)/devices.csv"
                let made = """
                    cd \(directory) && printf 'channel,token\\nandroid,t1\\n' > devices.csv && \
                    ln devices.csv hard.csv && ln -s devices.csv soft.csv
                    """
                #expect(try await runCommand(["sh", "-c", made]).status == 0)
                for name in ["devices.csv", "hard.csv", "soft.csv"] {
                    let words = ["device", "import", "shop", file, "--report", "\(directory)/\(name)"]
                    let result = try await runPeal(words, environment: environment)
                    #expect(result.status == 4, "\(result.output)")
                    #expect(result.output.contains("would replace the file that is imported"), "\(result.output)")
                }
                let piped = try await runCommand(
                    ["sh", "-c", "peal device import shop - --report \(file) < \(file)"],
                    environment: environment
                )
                #expect(piped.status == 4, "\(piped.output)")
                #expect(try await runCommand(["cat", file]).output == "channel,token\nandroid,t1\n")
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `an import whose file is cut off within a field says so, and one that cannot begin leaves the last report`()
        async throws
    {
        try await withScratchDirectory { directory in
            try await withDatabase { database in
                let environment = ["PEAL_DATABASE_URL": database.connectionString]
                _ = try await runPeal(["app", "create", "shop"], environment: environment)
                let report = "\(directory)/report.csv"
                let cut = try await runCommand(
                    ["sh", "-c", "printf 'channel,token\\nandroid,t1' | peal device import shop - --report \(report)"],
                    environment: environment
                )
                #expect(cut.status == 0, "\(cut.output)")
                #expect(cut.output.contains("peal: line 2 doubtful: the file does not end"), "\(cut.output)")
                let kept = try await runCommand(["cat", report]).output
                #expect(kept.hasPrefix("line,what,reason\n2,doubtful,"), "\(kept)")
                let words = ["device", "import", "shop", "\(directory)/missing.csv", "--report", report]
                #expect(try await runPeal(words, environment: environment).status == 4)
                #expect(try await runCommand(["cat", report]).output == kept)
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a control file cannot change in a run what holds for the whole of it`() async throws {
        try await withScratchDirectory { directory in
            let write = { (seconds: Int) in
                let text = "{\"at_start\": {\"oauth_expires_in_s\": \(seconds)}}"
                return ["sh", "-c", "cd \(directory) && echo '\(text)' > new && mv new control.json"]
            }
            _ = try await runCommand(write(5), environment: [:])
            let words = ["simulate", "--control", "\(directory)/control.json"]
            try await withPeal(words, environment: [:], in: directory) { simulator in
                try await simulator.waitForOutput("fcm project", upTo: .seconds(60))
                _ = try await runCommand(write(55), environment: [:])
                try await simulator.waitForOutput("at_start has changed", upTo: .seconds(60))
                await simulator.signal(SIGTERM)
                try await simulator.expectExit(0, upTo: .seconds(40))
            }
            let detail = try await runPeal(["simulate", "--ledger-detail"], environment: [:])
            #expect(detail.status == 2 && detail.output.contains("needs --ledger FILE"), "\(detail.output)")
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `peal up refuses a database whose master key is missing, and makes no other`() async throws {
        try await withScratchDirectory { directory in
            try await withPeal(["up", "--data", "data"], environment: [:], in: directory) { up in
                try await up.waitForOutput("peal: up;", upTo: .seconds(60))
                await up.signal(SIGTERM)
                try await up.expectExit(0, upTo: .seconds(40))
            }
            let key = "\(directory)/data/master.key"
            #expect(try await runCommand(["mv", key, "\(directory)/kept.key"]).status == 0)
            let refused = try await runPeal(["up", "--data", "\(directory)/data"], environment: [:])
            #expect(refused.status == 4, "\(refused.output)")
            #expect(refused.output.contains("PEAL_MASTER_KEY_FILE"), "\(refused.output)")
            #expect(refused.output.contains(key), "\(refused.output)")
            #expect(try await runCommand(["test", "-e", key]).status == 1)
            let environment = ["PEAL_MASTER_KEY_FILE": "\(directory)/kept.key"]
            try await withPeal(["up", "--data", "data"], environment: environment, in: directory) { up in
                try await up.waitForOutput("peal: up;", upTo: .seconds(60))
                await up.signal(SIGTERM)
                try await up.expectExit(0, upTo: .seconds(40))
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a start that is refused leaves no master key behind`() async throws {
        try await withScratchDirectory { directory in
            // Nobody can make a directory below a file, which stops the start before there is a cluster.
            let made = try await runCommand(["sh", "-c", "mkdir \(directory)/data && touch \(directory)/data/postgres"])
            #expect(made.status == 0)
            let refused = try await runPeal(["up", "--data", "\(directory)/data"], environment: [:])
            #expect(refused.status != 0, "\(refused.output)")
            #expect(try await runCommand(["test", "-e", "\(directory)/data/master.key"]).status == 1)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `an error shows what was typed without its terminal escapes`() async throws {
        let result = try await runPeal(["sned\u{1B}[2J\n\u{202E}x"], environment: [:])
        #expect(result.status == 2)
        #expect(result.output.contains("unknown command 'sned [2J  x'"), "\(result.output)")
        #expect(!result.output.contains("\u{1B}"))
        #expect(try await runPeal(["version"], environment: [:]) == runPeal(["--version"], environment: [:]))
    }

    @Test(.timeLimit(.minutes(4)))
    func `a word that is not UTF-8 is refused before anything is done with it`() async throws {
        let result = try await runCommand(["sh", "-c", "peal app create \"$(printf 'caf\\351')\""])
        #expect(result.status == 2)
        #expect(result.output.contains("not UTF-8"), "\(result.output)")
    }

    @Test(.timeLimit(.minutes(4)))
    func `a database without the schema is told apart from one that is down`() async throws {
        try await withEmptyDatabase { database in
            let environment = [
                "PEAL_DATABASE_URL": database.connectionString, "PEAL_MASTER_KEY": Pipeline.masterKeyText,
            ]
            let result = try await runPeal(["worker"], environment: environment)
            #expect(result.status == 1)
            #expect(result.output.contains("peal migrate"), "\(result.output)")
            #expect(!result.output.contains("worker started"), "\(result.output)")
            #expect(try await runPeal(["migrate"], environment: environment).status == 0)
            #expect(try await runPeal(["app", "list"], environment: environment).status == 0)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `peal up makes a database, serves it, and leaves nothing running`() async throws {
        try await withScratchDirectory { directory in
            let simulator = try ProviderSimulator.start()
            defer { simulator.stop() }
            for attempt in 1...2 {
                let environment = ["PEAL_CA_FILE": simulator.caFile]
                try await withPeal(["up", "--data", "data"], environment: environment, in: directory) { up in
                    try await up.waitForOutput("peal: up;", upTo: .seconds(60))
                    let trusted = try await runCommand(["sh", "-c", ". \(directory)/data/env; echo $PEAL_CA_FILE"])
                    #expect(trusted.output == "\(simulator.caFile)\n")
                    let slug = "app\(attempt)"
                    let created = try await runCommand(["sh", "-c", ". \(directory)/data/env; peal app create \(slug)"])
                    #expect(created.status == 0, "\(created.output)")
                    let listed = try await runCommand(["sh", "-c", ". \(directory)/data/env; peal app list"])
                    #expect(listed.output.contains(slug), "\(listed.output)")
                    await up.signal(SIGTERM)
                    try await up.expectExit(0, upTo: .seconds(40))
                    #expect(up.output.contains("peal: stopped"))
                }
                let left = try await runCommand(["sh", "-c", "pgrep -f -- '[-]D \(directory)/data'"])
                #expect(left.status == 1, "left running: \(left.output)")
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `peal up that is killed takes its server with it, and starts again on the same data`() async throws {
        try await withScratchDirectory { directory in
            let environment = ["PEAL_LOG_LEVEL": "info"]
            try await withPeal(["up", "--data", "data"], environment: environment, in: directory) { up in
                try await up.waitForOutput("peal: up;", upTo: .seconds(60))
                let created = try await runCommand(["sh", "-c", ". \(directory)/data/env; peal app create kept"])
                #expect(created.status == 0, "\(created.output)")
                await up.signal(SIGKILL)
                try await up.expectExit(128 + SIGKILL)
            }
            try await wait(for: "the server to follow") {
                try await runCommand(["pgrep", "-f", "--", "-D \(directory)/data"]).status == 1
            }
            try await withPeal(["up", "--data", "data"], environment: environment, in: directory) { up in
                try await up.waitForOutput("peal: up;", upTo: .seconds(60))
                let listed = try await runCommand(["sh", "-c", ". \(directory)/data/env; peal app list"])
                #expect(listed.output.contains("kept"), "\(listed.output)")
                await up.signal(SIGTERM)
                try await up.expectExit(0, upTo: .seconds(40))
            }
        }
    }
}
