import PealRuntime

extension Command {
    static let deviceShow = Command(
        "show",
        summary: "shows everything that is stored about devices",
        discussion: "Prints one JSON object per device. The tokens are shortened unless --tokens is given.",
        positionals: [.app, Positional("ID", "the device's number", isRequired: false)],
        options: DeviceSelection.namingOptions + [Option(flag: "tokens", "print tokens whole")],
        examples: [
            Example("peal device show shop 4711", "shows device 4711"),
            Example("peal device show shop --external-id user-1", "shows every device of user-1"),
        ]
    ) { arguments in
        let selection = try DeviceSelection(arguments, kindOptions: false)
        let connection = try await Database.open(purpose: "device show")
        let app = try await Apps(connection).find(arguments.positional("APP"))
        let rows = try await Devices(connection).page(app, selection, limit: 1000)
        if rows.isEmpty { throw CommandError.noSuchDevice }
        for row in rows {
            try StandardOutput.object(Devices.members(row, wholeTokens: arguments.flag("tokens")))
        }
        return .success
    }
}

extension CommandError {
    static let noSuchDevice = CommandError(
        .refused,
        "the app has no such device",
        advice: "'peal device list APP' shows them"
    )
}
