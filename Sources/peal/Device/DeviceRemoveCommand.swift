import PealRuntime

extension Command {
    static let deviceRemove = Command(
        "remove",
        summary: "removes devices",
        positionals: [.app, Positional("ID", "the device's number", isRequired: false)],
        options: DeviceSelection.namingOptions + [
            Option("channel", "NAME", "with --token: whose token it is", choices: ["ios", "android"])
        ],
        examples: [
            Example("peal device remove shop 4711", "removes device 4711"),
            Example("peal device remove shop --external-id user-1", "removes every device of user-1"),
        ]
    ) { arguments in
        let selection = try DeviceSelection(arguments, kindOptions: true)
        let connection = try await Database.open(purpose: "device remove")
        let removed = try await Devices(connection).remove(slug: arguments.positional("APP"), selection)
        guard removed > 0 else { throw CommandError.noSuchDevice }
        try StandardOutput.line("\(removed) removed")
        return .success
    }
}

extension DeviceSelection {
    /// The options that name devices, one of which must be given.
    static let namingOptions = [
        Option("external-id", "ID", "the devices of this user"),
        Option("installation-id", "ID", "the device of this installation"),
        Option("token", "TOKEN", "the device with this token"),
    ]

    /// Reads what names devices. Throws a usage error unless exactly one thing does.
    init(_ arguments: ParsedArguments, kindOptions: Bool) throws(CommandError) {
        self.init()
        if let word = arguments.positionals("ID").first {
            guard let id = Int64(word), id > 0 else {
                throw CommandError(.usage, "'\(word)' is not the number of a device", at: "ID")
            }
            deviceID = id
        }
        externalID = arguments.text("external-id")
        installationID = arguments.text("installation-id")
        token = arguments.text("token")
        if kindOptions { channel = arguments.text("channel") }
        let names: [Any?] = [deviceID, externalID, installationID, token]
        guard names.compactMap({ $0 }).count == 1 else {
            throw CommandError(
                .usage,
                "name devices by exactly one of ID, --external-id, --installation-id and --token"
            )
        }
        if kindOptions, token != nil, channel == nil {
            throw CommandError(.usage, "--channel is missing, and --token needs it")
        }
    }
}
