import Glibc
import Postgres
import PushCore
import TestSupport
import Testing

/// Commands that end in the middle of something, or have lost what they need.
@Suite struct StoppedCommandTests {
    @Test(.timeLimit(.minutes(4)))
    func `peal up ends when its server does, with status 3 and the server's last words`() async throws {
        try await withScratchDirectory { directory in
            try await withPeal(["up", "--data", "data"], environment: [:], in: directory) { up in
                try await up.waitForOutput("peal: up;", upTo: .seconds(60))
                let lockFile = "\(directory)/data/postgres/data/postmaster.pid"
                let killed = try await runCommand(["sh", "-c", "kill -9 $(head -n 1 \(lockFile))"])
                #expect(killed.status == 0, "\(killed.output)")
                try await up.expectExit(3, upTo: .seconds(40))
                #expect(up.output.contains("PostgreSQL ended by itself; its last words: "), "\(up.output)")
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `peal up refuses a key that opens nothing where its own does, and leaves its environment file alone`()
        async throws
    {
        try await withScratchDirectory { directory in
            let up = { (environment: [String: String], body: (PealProcess) async throws -> Void) in
                try await withPeal(["up", "--data", "data"], environment: environment, in: directory, body)
            }
            try await up([:]) { up in
                try await up.waitForOutput("peal: up;", upTo: .seconds(60))
                let added = try await runCommand([
                    "sh", "-ec",
                    """
                    cd \(directory); . data/env; peal app create shop
                    openssl ecparam -genkey -noout -name prime256v1 | openssl pkcs8 -topk8 -nocrypt > key.p8
                    peal credential add shop apns --key key.p8 --key-id ABCDEFGHIJ --team-id ABCDEFGHIJ \
                        --topic com.example.shop --environment production
                    """,
                ])
                #expect(added.status == 0, "\(added.output)")
                await up.signal(SIGTERM)
                try await up.expectExit(0, upTo: .seconds(40))
            }
            let former = try await runCommand(["cat", "\(directory)/data/env"]).output
            try await up(["PEAL_MASTER_KEY": String(repeating: "77", count: 32)]) { up in
                try await up.expectExit(4, upTo: .seconds(60))
                #expect(up.output.contains("opens none of the 1 credential"), "\(up.output)")
                #expect(up.output.contains("\(directory)/data/master.key"), "\(up.output)")
            }
            #expect(try await runCommand(["cat", "\(directory)/data/env"]).output == former)

            // Where that key is lost, only a server that runs lets anybody replace what it sealed.
            #expect(try await runCommand(["rm", "\(directory)/data/master.key"]).status == 0)
            try await up(["PEAL_MASTER_KEY": String(repeating: "77", count: 32)]) { up in
                try await up.waitForOutput("Credentials do not open with this master key", upTo: .seconds(60))
                try await up.waitForOutput("worker started")
                await up.signal(SIGTERM)
                try await up.expectExit(0, upTo: .seconds(40))
            }
        }
    }

    @Test(.timeLimit(.minutes(4)), arguments: [SIGTERM, SIGINT])
    func `an import that waits for the database stops at a signal`(signal: Int32) async throws {
        try await withSendFixture { fixture in
            try await withScratchDirectory { directory in
                let file = "\(directory)/devices.csv"
                let made = try await runCommand([
                    "sh", "-c", "printf 'channel,token,external_id\\nandroid,demo:1,customer-1\\n' > \(file)",
                ])
                #expect(made.status == 0)
                let environment = ["PEAL_DATABASE_URL": fixture.database.connectionString]
                try await withLockedTable("peal.device", fixture) {
                    try await withPeal(["device", "import", "shop", file], environment: environment) { peal in
                        try await waitForWaiter("peal.device", fixture)
                        await peal.signal(signal)
                        try await peal.expectExit(128 + signal, upTo: .seconds(20))
                        #expect(peal.output.contains("nothing was imported"), "\(peal.output)")
                    }
                }
            }
        }
    }

    @Test(.timeLimit(.minutes(4)), arguments: [false, true])
    func `an import from a pipe stops at a signal, whether the pipe stays open or ends with it`(
        pipeEnds: Bool
    ) async throws {
        try await withSendFixture { fixture in
            try await withScratchDirectory { directory in
                let path = "\(directory)/devices"
                #expect(unsafe mkfifo(path, 0o600) == 0)
                var pipe = unsafe open(path, O_RDWR | O_CLOEXEC)
                defer { if pipe >= 0 { close(pipe) } }
                // A whole chunk, so that its end is not the end of the file, and all of it fits into the pipe.
                let rows = (1...20_000).map { "android,demo:\($0)\n" }.joined()
                let text = "channel,token\n" + rows
                let setPipeSize: Int32 = 1031  // F_SETPIPE_SZ, which Swift does not see
                #expect(fcntl(pipe, setPipeSize, 1 << 20) >= text.utf8.count)
                #expect(unsafe write(pipe, text, text.utf8.count) == text.utf8.count)
                let environment = ["PEAL_DATABASE_URL": fixture.database.connectionString]
                try await withPeal(["device", "import", "shop", path], environment: environment) { peal in
                    try await wait(for: "the first chunk to be imported") {
                        try await fixture.number("SELECT count(*) FROM peal.device") == 20_000
                    }
                    await peal.signal(SIGINT)
                    if pipeEnds {
                        close(pipe)
                        pipe = -1
                    }
                    try await peal.expectExit(128 + SIGINT, upTo: .seconds(20))
                    #expect(peal.output.contains("rows up to line 20001 are imported"), "\(peal.output)")
                }
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a watch that waits for the database stops at a signal`() async throws {
        try await withSendFixture { fixture in
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            let environment = ["PEAL_DATABASE_URL": fixture.database.connectionString]
            try await withLockedTable("peal.job", fixture) {
                try await withPeal(["job", "watch", "\(job)"], environment: environment) { peal in
                    try await waitForWaiter("peal.job", fixture)
                    await peal.signal(SIGTERM)
                    try await peal.expectExit(128 + SIGTERM, upTo: .seconds(20))
                    #expect(peal.output.contains("the job goes on"), "\(peal.output)")
                }
            }
        }
    }

    private func withLockedTable(_ table: String, _ fixture: SendFixture, _ body: () async throws -> Void) async throws
    {
        let blocker = try await fixture.database.connect()
        _ = try await blocker.execute("BEGIN")
        _ = try await blocker.execute("LOCK TABLE \(table) IN ACCESS EXCLUSIVE MODE")
        try await body()
        await blocker.close()
    }

    /// Waits until somebody waits for the table in this database: in those of other tests it has the same number.
    private func waitForWaiter(_ table: String, _ fixture: SendFixture) async throws {
        try await wait(for: "a command to wait for the lock of \(table)") {
            let waiting = """
                SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
                WHERE NOT l.granted AND l.relation = '\(table)'::regclass AND d.datname = current_database()
                """
            return try await fixture.number(waiting) > 0
        }
    }
}
