import PealRuntime
import ProviderSimulator

/// `peal simulate`: APNs, FCM and the Google token endpoint as one local server, in the foreground.
enum SimulateCommand {
    static let command = Command(
        "simulate",
        summary: "play APNs, FCM and the Google token endpoint on this machine",
        discussion: """
            Real TLS and HTTP/2 on loopback; nothing leaves the machine. Point credentials at the printed endpoints and
            PEAL_CA_FILE at the printed file. Tokens script their own answer, for example deadbeef… (410 Unregistered),
            bad40002… (BadDeviceToken), de1ade1a0200… (200 ms late), f12505000002… (500 twice, then 200), or for FCM
            unregistered:…, quota-30:…, delay-200:…; --list-words prints the table, docs/simulator.md has the control file.
            Ends on Ctrl-C or SIGTERM.
            """,
        options: [
            Option(
                "base-port",
                "PORT",
                "first of four ports: APNs production, sandbox, FCM, token endpoint; default free ones"
            ),
            Option("bind", "ADDRESS", "IPv4 address to listen on; default 127.0.0.1"),
            Option("directory", "DIR", "where ca.pem is written; default a new directory under /tmp"),
            Option("write-credentials", "DIR", "write an APNs key, a service account and ca.pem that work here"),
            Option("apns-key", "FILE", "accept this .p8 key (with --key-id and --team-id) instead of a new one"),
            Option("key-id", "ID", "key id of --apns-key"),
            Option("team-id", "ID", "team id of --apns-key"),
            Option("service-account", "FILE", "accept this service account instead of a new one"),
            Option("project", "ID", "FCM project of the new service account"),
            Option("control", "FILE", "script the answers by this JSON file, read again when it changes"),
            Option("latency-ms", "N", "delay each answer, as a control file does"),
            Option("round-trip-ms", "N", "delay each answer cheaply, for load runs; --quick stays hand-framed"),
            Option("streams", "N", "streams that APNs allows after the first accepted request; default 1000"),
            Option("fcm-streams", "N", "streams that FCM allows; default 100"),
            Option("ledger", "FILE", "append one JSON line per request"),
            Option(flag: "ledger-detail", "with --ledger: method, path, every header field and the body in each line"),
            Option(flag: "ledger-tokens-only", "remember counts per token instead of requests, for long runs"),
            Option(
                flag: "quick",
                "check nothing and answer at once, for load runs; totals only unless a ledger is asked for"
            ),
            Option("format", "FORMAT", "how start and end are printed", choices: ["text", "json"]),
            Option(flag: "plain-text", "HTTP/2 without TLS, for load generators; peal itself does not speak it"),
            Option(flag: "token-words", "honour the words in tokens in --quick too"),
            Option(flag: "list-words", "print the table of token words and end"),
        ],
        examples: [
            Example(
                "peal simulate --write-credentials /tmp/sim",
                "starts, and leaves credentials to register with peal"
            ),
            Example("peal simulate --quick --base-port 9443", "a target for load runs"),
        ]
    ) { arguments in
        try await run(arguments)
    }

    @concurrent
    private static func run(_ arguments: ParsedArguments) async throws -> ExitStatus {
        if arguments.flag("list-words") {
            try printWords()
            return .success
        }
        let signals = ShutdownSignals()
        let simulator: ProviderSimulator
        do {
            simulator = try ProviderSimulator.start(try options(from: arguments))
            if let directory = arguments.text("write-credentials") {
                try simulator.writeCredentials(to: directory)
            }
        } catch let error as SimulatorError {
            throw CommandError(status(of: error.code), error.description)
        }
        let isJSON = arguments.text("format") == "json"
        if isJSON {
            try StandardOutput.line(simulator.endpointsJSON)
        } else {
            try printEndpoints(simulator, credentials: arguments.text("write-credentials"))
        }
        await runUntilStopped(simulator, signals)
        simulator.stop()
        if isJSON {
            try StandardOutput.line(simulator.summary.json)
        } else {
            try printSummary(simulator)
        }
        return .success
    }

    /// What was typed is a usage error, what stands in a file is refused, and the rest is the machine's.
    private static func status(of code: SimulatorError.Code) -> ExitStatus {
        switch code {
        case .address: .usage
        case .file, .control, .key: .refused
        case .socket, .certificate, .thread, .session: .failure
        }
    }

    /// Waits for Ctrl-C or SIGTERM; meanwhile a terminal shows the counts, once a second.
    private static func runUntilStopped(_ simulator: ProviderSimulator, _ signals: ShutdownSignals) async {
        await withTaskGroup { group in
            if StandardOutput.errorIsTerminal {
                group.addTask {
                    var progress = Progress()
                    while (try? await Task.sleep(for: .seconds(1))) != nil { progress.show(simulator.ledger.totals) }
                }
            }
            for await _ in signals.received { break }
            group.cancelAll()
        }
    }

    private static func options(from arguments: ParsedArguments) throws -> SimulatorOptions {
        var options = arguments.flag("quick") ? SimulatorOptions.quick() : SimulatorOptions()
        if let first = try arguments.integer("base-port", in: 1...65_532) {
            for (offset, role) in ProviderRole.allCases.enumerated() { options.ports[role] = first + offset }
        }
        if let address = arguments.text("bind") { options.bindAddress = address }
        options.directory = arguments.text("directory")
        options.controlFile = arguments.text("control")
        options.ledgerFile = arguments.text("ledger")
        if options.ledgerFile != nil { options.ledger = .records }
        if arguments.flag("ledger-detail") {
            guard options.ledgerFile != nil else { throw CommandError(.usage, "--ledger-detail needs --ledger FILE") }
            options.keepsHeaders = true
            options.keepsBodies = true
            // They are for the file; kept in memory too they would grow to gigabytes.
            options.maximumRecords = 2_000
        }
        if arguments.flag("ledger-tokens-only") { options.ledger = .tokens }
        options.isPlainText = arguments.flag("plain-text")
        if arguments.flag("token-words") { options.honoursTokenWords = true }
        options.latencyMilliseconds = try arguments.integer("latency-ms", in: 0...3_600_000) ?? 0
        options.roundTripMilliseconds = try arguments.integer("round-trip-ms", in: 0...3_600_000) ?? 0
        if let streams = try arguments.integer("streams", in: 1...100_000) {
            options.apns.streamsAfterAcceptance = UInt32(streams)
        }
        if let streams = try arguments.integer("fcm-streams", in: 1...100_000) {
            options.fcm.maximumConcurrentStreams = UInt32(streams)
        }
        if let project = arguments.text("project") { options.fcm.projectID = project }
        if let file = arguments.text("apns-key") {
            guard let keyID = arguments.text("key-id"), let teamID = arguments.text("team-id") else {
                throw CommandError(.usage, "--apns-key needs --key-id and --team-id")
            }
            options.apns.keys = [try APNsSigningKey(keyID: keyID, teamID: teamID, file: file)]
        }
        if let file = arguments.text("service-account") {
            let account = try OAuthAccount(file: file)
            options.oauth.accounts = [account]
            options.fcm.projectID = account.projectID
        }
        return options
    }

    private static func printEndpoints(_ simulator: ProviderSimulator, credentials: String?) throws {
        var table = RowPrinter(columns: ["provider", "endpoint"], format: .table)
        var rows = ProviderRole.allCases.compactMap { role in
            simulator.endpoints[role].map { [Cell.text(role.rawValue), Cell.text($0.url)] }
        }
        rows.append(["ca file", .text(simulator.caFile)])
        rows.append(["apns key id", .text(simulator.keyID)])
        rows.append(["apns team id", .text(simulator.teamID)])
        rows.append(["fcm project", .text(simulator.projectID)])
        if let credentials { rows.append(["credentials", .text(credentials)]) }
        for phrase in simulator.summary.notChecked { rows.append(["not checked", .text(phrase)]) }
        try table.print(rows)
    }

    private static func printWords() throws {
        var table = RowPrinter(columns: ["apns", "fcm", "default N", "meaning"], format: .table)
        try table.print(
            (TokenWords.all + TokenWords.numbered).map { word in
                let parameter = word.defaultParameter.flatMap { $0 < 0 ? nil : $0 }
                return [Cell(word.apns), Cell(word.fcm), Cell(parameter), .text(word.meaning)]
            }
        )
    }

    private static func printSummary(_ simulator: ProviderSimulator) throws {
        let ledger = simulator.ledger
        let totals = ledger.totals
        var table = RowPrinter(columns: ["what", "count"], format: .table)
        var rows: [[Cell]] = [
            ["requests", .number(totals.requests)],
            ["accepted", .number(totals.accepted)],
            ["rejected", .number(totals.rejected)],
            ["unanswered", .number(totals.unanswered)],
            ["connections", .number(totals.connectionsOpened)],
            ["cpu seconds", .text("\(simulator.summary.cpuSeconds)")],
        ]
        let histogram = ledger.acceptedHistogram()
        if !histogram.isEmpty {
            rows.append(["tokens accepted once", .number(histogram[1] ?? 0)])
            let repeated = histogram.reduce(0) { $0 + ($1.key > 1 ? $1.value : 0) }
            rows.append(["tokens accepted more often", .number(repeated)])
        }
        try table.print(rows)
    }
}

/// The line of counts on a terminal, once a second.
private struct Progress {
    private var shownAt = ContinuousClock.now
    private var lastRequests = 0

    mutating func show(_ totals: SimulatorTotals, now: ContinuousClock.Instant = .now) {
        let seconds = (now - shownAt) / .seconds(1)
        let rate = Int(Double(totals.requests - lastRequests) / seconds)
        StandardOutput.errorText(
            "\r\u{1B}[K\(Digits.grouped(totals.requests)) requests, \(Digits.grouped(rate))/s, "
                + "\(Digits.grouped(totals.accepted)) accepted, \(Digits.grouped(totals.rejected)) rejected, "
                + "\(Digits.grouped(totals.unanswered)) unanswered, \(totals.connectionsOpen) connections"
        )
        shownAt = now
        lastRequests = totals.requests
    }
}
