import PealRuntime

extension Command {
    static let deviceList = Command(
        "list",
        summary: "lists devices of an app in the order of their numbers",
        positionals: [.app],
        options: [
            Option("channel", "NAME", "only these", choices: ["ios", "android"]),
            Option("external-id", "ID", "only those of this user"),
            Option("state", "NAME", "only these", choices: ["enabled", "disabled"]),
            Option("after", "ID", "only those numbered above it, to go on"),
            Option("limit", "N", "at most so many (100)"),
            RowPrinter.formatOption,
            Option(flag: "tokens", "print tokens whole"),
        ],
        examples: [
            Example("peal device list shop --channel ios --limit 20", "shows the first 20 iPhones"),
            Example("peal device list shop --state disabled --format csv", "prints devices with dead tokens as CSV"),
        ]
    ) { arguments in
        var selection = DeviceSelection()
        selection.channel = arguments.text("channel")
        selection.externalID = arguments.text("external-id")
        selection.isDisabled = arguments.text("state").map { $0 == "disabled" }
        let after = try arguments.integer("after", in: 0...Int(Int64.max)) ?? 0
        var left = try arguments.integer("limit", in: 1...Int(Int32.max)) ?? 100
        let connection = try await Database.open(purpose: "device list")
        let app = try await Apps(connection).find(arguments.positional("APP"))
        let isTable = arguments.text("format") ?? "table" == "table"
        let columns = isTable ? tableColumns : Devices.columns
        var printer = RowPrinter(columns: columns, arguments: arguments)
        var last = Int64(after)
        var hasPrinted = false
        while left > 0 {
            let size = min(left, 5000)
            let rows = try await Devices(connection).page(app, selection, after: last, limit: size)
            if rows.isEmpty, hasPrinted { break }
            let members = rows.map { Devices.members($0, wholeTokens: arguments.flag("tokens")) }
            try printer.print(members.map { row in row.filter { columns.contains($0.0) }.map(\.1) })
            hasPrinted = true
            left -= rows.count
            guard rows.count == size, case .number(let id)? = rows.last?.first else { break }
            last = Int64(id)
        }
        return .success
    }
}

/// What fits a terminal; the other formats have every column.
private let tableColumns = [
    "id", "channel", "environment", "token", "external_id", "locale", "app_version", "registered_at", "disabled_reason",
]
