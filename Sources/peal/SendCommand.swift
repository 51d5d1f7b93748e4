import PealRuntime
import PushCore

extension Command {
    static let send = Command(
        "send",
        summary: "asks for a send, as an INSERT into peal.job does",
        discussion: """
            AUDIENCE and CONTENT are JSON, @FILE to read a file, or - to read standard input. See docs/sql.md for the
            audience and docs/content.md for the content.
            With --wait the exit status is 5 when nothing was accepted by a provider.
            """,
        positionals: [.app],
        options: [
            Option("audience", "JSON", "to whom", isRequired: true),
            Option("content", "JSON", "what", isRequired: true),
            Option("at", "TIME", "not before this time, such as 2026-12-24T18:00:00+01:00"),
            Option("ttl", "SECONDS", "how long it is worth sending, 0 to 2419200"),
            Option("collapse-id", "ID", "a newer push with the same id replaces it on the device"),
            Option("idempotency-key", "KEY", "refuse a second send with the same key"),
            Option("lane", "NAME", "which queue", choices: ["call", "transactional", "campaign"]),
            Option(
                "on-doubt",
                "WHAT",
                "when a connection was lost with the message on the wire",
                choices: ["resend", "unknown"]
            ),
            Option(flag: "dry-run", "say whom it would reach, and send nothing"),
            Option(flag: "wait", "show progress until the send has ended"),
            Option("format", "FORMAT", "how the answer is printed", choices: ["text", "json"]),
        ],
        examples: [
            Example(
                #"peal send shop --audience '{"external_ids":["user-1"]}' --content '{"title":"Hello","body":"World"}'"#,
                "sends one push and prints the job's id"
            ),
            Example(
                #"peal send shop --audience '{"segments":["vip"]}' --content @sale.json --at 2026-12-24T18:00:00Z"#,
                "sends to a segment later"
            ),
            Example("peal send shop --audience '{\"all\":true}' --content @sale.json --dry-run", "counts the audience"),
        ]
    ) { arguments in
        if arguments.flag("dry-run"), arguments.flag("wait") {
            let what = "--dry-run sends nothing that --wait could wait for"
            throw CommandError(.usage, what, advice: "leave one of them out")
        }
        let request = try sendRequest(arguments)
        let connection = try await Database.open(purpose: "send")
        let jobs = Jobs(connection)
        let isJSON = arguments.text("format") == "json"
        if arguments.flag("dry-run") {
            try printPreview(try await jobs.preview(request), asJSON: isJSON)
            return .success
        }
        let job = try await jobs.send(request)
        try printAccepted(job, asJSON: isJSON)
        guard arguments.flag("wait") else { return .success }
        return try finish(try await JobWatch(jobs).run(job.id), asJSON: isJSON)
    }

    /// Prints how a job ended; status 5 when nothing of it was accepted.
    static func finish(_ status: JobStatus, asJSON: Bool) throws -> ExitStatus {
        if asJSON {
            try StandardOutput.object(status.cells)
        } else {
            for line in try status.endLines() { try StandardOutput.line(line) }
            if let failure = status.failure { StandardOutput.error("peal: the job was discarded; \(failure)") }
        }
        return status.count("accepted") > 0 ? .success : .notDelivered
    }
}

private func sendRequest(_ arguments: ParsedArguments) throws(CommandError) -> SendRequest {
    let audience = arguments.requiredText("audience")
    let content = arguments.requiredText("content")
    if audience == "-", content == "-" {
        throw CommandError(.usage, "only one of --audience and --content can be read from standard input")
    }
    var request = SendRequest(
        app: arguments.positional("APP"),
        audience: try json(audience, named: "audience"),
        content: try json(content, named: "content")
    )
    if let text = arguments.text("at") {
        guard let time = WallClock.Instant(text) else {
            throw CommandError(
                .usage,
                "'\(text)' is not a time with its offset",
                at: "--at",
                advice: "write it like 2026-12-24T18:00:00+01:00 or 2026-12-24T17:00:00Z"
            )
        }
        request.sendAt = time
    }
    request.ttlSeconds = try arguments.integer("ttl", in: 0...2_419_200).map { Int32($0) }
    request.collapseID = arguments.text("collapse-id")
    request.idempotencyKey = arguments.text("idempotency-key")
    request.lane = arguments.text("lane")
    request.onDoubt = arguments.text("on-doubt")
    return request
}

/// The JSON text of an option; what is wrong with it is said before the database sees it.
private func json(_ value: String, named name: String) throws(CommandError) -> String {
    let bytes: [UInt8]
    var source = "--\(name)"
    if value == "-" {
        bytes = try FileContents.read("-", limitBytes: 16 << 20)
        source += ", standard input"
    } else if value.hasPrefix("@") {
        bytes = try FileContents.read(String(value.dropFirst()), limitBytes: 16 << 20)
        source += ", \(value.dropFirst())"
    } else {
        bytes = Array(value.utf8)
    }
    let parsed: JSONValue
    do {
        parsed = try JSONValue.parse(bytes, root: name)
    } catch {
        throw CommandError(.refused, error.description, at: source, advice: "\(name) must be a JSON object")
    }
    guard case .object = parsed else {
        throw CommandError(.refused, "\(name) must be a JSON object, found \(parsed.kindName)", at: source)
    }
    return String(decoding: bytes, as: UTF8.self)
}

private func printAccepted(_ job: AcceptedJob, asJSON: Bool) throws(CommandError) {
    if asJSON {
        let members: [(String, Cell)] = [
            ("id", .text("\(job.id)")), ("lane", .text(job.lane)), ("state", .text(job.state)),
            ("send_at", .text("\(job.sendAt)")), ("expires_at", .text("\(job.expiresAt)")),
        ]
        try StandardOutput.object(members)
    } else {
        try StandardOutput.line("\(job.id)")
    }
}

private func printPreview(_ preview: AudiencePreview, asJSON: Bool) throws {
    let rows: [[Cell]] = preview.parts.map { part in
        [Cell(part.channel), Cell(part.skippedReason), .number(part.count), Cell(part.payloadBytes)]
    }
    var printer = RowPrinter(
        columns: ["channel", "skipped_reason", "recipients", "payload_bytes"],
        format: asJSON ? .jsonl : .table
    )
    try printer.print(rows)
    if !asJSON {
        try StandardOutput.line(
            "\(counted(preview.audience, "recipient")) in lane \(preview.lane); nothing was sent"
        )
    }
}
