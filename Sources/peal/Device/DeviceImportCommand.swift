import PealRuntime

extension Command {
    static let deviceImport = Command(
        "import",
        summary: "imports devices from a CSV file",
        discussion: """
            The first row names the columns: channel (ios or android) and token, and any of environment (production or
            sandbox), voip_token, installation_id, external_id, tags (a JSON object), tag.NAME (one tag, as text),
            locale, timezone, app_version, os_version, model. A column that the file has replaces what is stored, also
            when a field is empty; a column that it lacks leaves it. tag.NAME columns alone leave other tags.

            A row finds its device by the token, else by the installation id, so importing a file again is safe. Rows
            are stored 20,000 at a time. Where two rows have one token or one installation id, the later one wins.
            Rows that cannot be used are refused with their line and the reason; the others are imported.
            Exit status 4 when rows were refused. A last row without a line end is imported, and said to be doubtful.
            """,
        positionals: [.app, Positional("FILE", "a CSV file in UTF-8, or - for standard input")],
        options: [
            Option("report", "FILE", "write every refused, merged or doubtful row here as CSV: line, what, reason"),
            Option("from-line", "N", "pass over rows before this line, to go on after a stop"),
        ],
        examples: [
            Example("peal device import shop devices.csv", "imports the devices, with progress"),
            Example("peal device import shop devices.csv --report refused.csv", "and keeps what was refused"),
        ]
    ) { arguments in
        let firstLine = try arguments.integer("from-line", in: 2...Int(UInt32.max)) ?? 2
        let connection = try await Database.open(purpose: "device import")
        let app = try await Apps(connection).find(arguments.positional("APP"))
        let input = arguments.positional("FILE")
        let report = try arguments.text("report").map { path throws(CommandError) in
            try ImportReport(path: path, inputPath: input)
        }
        var session = DeviceImportSession(path: input, report: report, firstLine: firstLine)
        Interruption.catchSignals()
        return try await session.run(DeviceImport(app: app, connection: connection), firstLine: firstLine)
    }
}

/// Shows an import to the person who started it.
private struct DeviceImportSession {
    /// More than that is for the report file.
    private static let shownNotices = 20

    let path: String
    let report: ImportReport?
    private var noticeCount = 0
    private var progress: ProgressLine

    init(path: String, report: ImportReport?, firstLine: Int) {
        self.path = path
        self.report = report
        progress = ProgressLine("Importing", unit: "rows", beginsNow: firstLine <= 2)
    }

    mutating func run(_ work: DeviceImport, firstLine: Int) async throws -> ExitStatus {
        do {
            let result = try await work.run(path: path, firstLine: firstLine) { figures, byteCount, notices in
                try show(figures, byteCount, notices)
                try Interruption.check(Self.resumption(figures))
            }
            try report?.flush()
            guard result.read > 0 else {
                let rows = firstLine > 2 ? "no rows from line \(firstLine) on" : "a header and no rows"
                try StandardOutput.line("nothing to import: \(path) has \(rows)")
                return .success
            }
            progress.finish(update(result, share: 1))
            try StandardOutput.line(summary(result))
            return result.refused == 0 ? .success : .refused
        } catch let failure as DeviceImport.Failure {
            if failure.report.read > 0 { progress.finish(update(failure.report, share: nil)) }
            throw Self.error(failure)
        }
    }

    /// What to tell of an import that ended early. Apart from `run`: Swift 6.3 crashes on that in release with this in it.
    private static func error(_ failure: DeviceImport.Failure) -> CommandError {
        do {
            try Interruption.check(resumption(failure.report))
        } catch {
            return error
        }
        let error = CommandError(describing: failure.underlying)
        if error.status == .interrupted || error.status == .terminated { return error }
        let location = [error.location, resumption(failure.report)].filter { !$0.isEmpty }
        return CommandError(error.status, error.what, at: location.joined(separator: "; "), advice: error.advice)
    }

    private static func resumption(_ figures: DeviceImport.Report) -> String {
        if figures.read == 0 { return "nothing was imported" }
        return "rows up to line \(figures.lastLine) are imported; run it again, or go on with "
            + "--from-line \(figures.lastLine + 1)"
    }

    private mutating func show(
        _ figures: DeviceImport.Report,
        _ byteCount: Int?,
        _ notices: [ImportNotice]
    ) throws(CommandError) {
        for notice in notices {
            if let report { try report.add(notice) }
            if notice.kind == .doubtful {
                say(notice)
            } else if report == nil {
                noticeCount += 1
                tell(notice)
            }
        }
        // Chunk by chunk, so that the report has what is in the database also when the import ends early.
        try report?.flush()
        let share = byteCount.map { $0 == 0 ? 1 : Double(figures.bytesRead) / Double($0) }
        progress.show(update(figures, share: share))
    }

    /// Without a report file the first of them are said here.
    private mutating func tell(_ notice: ImportNotice) {
        if noticeCount <= Self.shownNotices {
            say(notice)
        } else if noticeCount == Self.shownNotices + 1 {
            progress.clear()
            StandardOutput.error("peal: more rows like these are counted only; --report FILE keeps them all")
        }
    }

    private mutating func say(_ notice: ImportNotice) {
        progress.clear()
        StandardOutput.error("peal: line \(notice.line) \(notice.kind.rawValue): \(notice.reason)")
    }

    private func update(_ figures: DeviceImport.Report, share: Double?) -> ProgressLine.Update {
        let note = figures.refused > 0 ? "\(Digits.grouped(figures.refused)) refused" : ""
        return ProgressLine.Update(done: figures.read, total: nil, share: share, note: note)
    }

    private func summary(_ figures: DeviceImport.Report) -> String {
        let parts = [
            counted(figures.read, "row"), "\(counted(figures.added, "device")) added",
            "\(Digits.grouped(figures.updated)) updated", "\(counted(figures.merged, "row")) merged",
            "\(Digits.grouped(figures.refused)) refused",
        ]
        return parts.joined(separator: ", ")
    }
}
