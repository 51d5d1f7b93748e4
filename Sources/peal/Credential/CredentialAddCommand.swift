import PealRuntime

extension Command {
    static let credentialAdd = Command(
        "add",
        summary: "stores an APNs key or an FCM service account, sealed",
        discussion: """
            The key is sealed with AES-256-GCM under the master key (PEAL_MASTER_KEY or PEAL_MASTER_KEY_FILE) before it
            reaches the database. Several credentials of one kind may stand side by side; the newest is used first.
            """,
        positionals: [.app, Positional("PROVIDER", "apns or fcm")],
        options: [
            Option("key", "FILE.p8", "apns: the signing key that Apple gave out"),
            Option("key-id", "ID", "apns: the key's id"),
            Option("team-id", "ID", "apns: the team's id"),
            Option("topic", "BUNDLE", "apns: the app's bundle id"),
            Option("environment", "NAME", "apns: which host it is for", choices: ["production", "sandbox"]),
            Option("service-account", "FILE.json", "fcm: the service account file from the Firebase console"),
            Option("endpoint", "URL", "send to this host instead of the provider's own (https://HOST:PORT)"),
        ],
        examples: [
            Example(
                "peal credential add shop apns --key AuthKey.p8 --key-id ABC123DEFG --team-id DEF123GHIJ "
                    + "--topic com.example.shop --environment production",
                "lets the app send to iPhones"
            ),
            Example("peal credential add shop fcm --service-account account.json", "lets the app send to Android"),
        ]
    ) { arguments in
        let provider = arguments.positional("PROVIDER")
        let settings = Settings.fromEnvironment()
        let endpoint = try arguments.text("endpoint").map { text throws(CommandError) in
            try CredentialEndpoint.checked(text, named: "--endpoint")
        }
        switch provider {
        case "apns":
            try refuse(["service-account"], in: arguments, provider: provider)
            let credential = try apnsCredential(arguments)
            for warning in credential.warnings { StandardOutput.error("peal: warning: \(warning)") }
            let sealingKey = try settings.requireMasterKey()
            let connection = try await Database.open(settings, purpose: "credential add")
            let app = try await Apps(connection).find(arguments.positional("APP"))
            let id = try await Credentials(connection)
                .add(credential, endpoint: endpoint, to: app, sealingKey: sealingKey)
            try StandardOutput.line("credential \(id) is stored: APNs \(credential.environment), \(credential.topic)")
        case "fcm":
            try refuse(["key", "key-id", "team-id", "topic", "environment"], in: arguments, provider: provider)
            let path = try required("service-account", in: arguments, provider: provider)
            let credential = try FCMCredential(json: try FileContents.read(path), source: path)
            let sealingKey = try settings.requireMasterKey()
            let connection = try await Database.open(settings, purpose: "credential add")
            let app = try await Apps(connection).find(arguments.positional("APP"))
            let id = try await Credentials(connection)
                .add(credential, endpoint: endpoint, to: app, sealingKey: sealingKey)
            try StandardOutput.line("credential \(id) is stored: FCM project \(credential.projectID)")
        default:
            throw CommandError(.usage, "'\(provider)' is neither apns nor fcm", at: "PROVIDER")
        }
        return .success
    }
}

private func apnsCredential(_ arguments: ParsedArguments) throws(CommandError) -> APNsCredential {
    let path = try required("key", in: arguments, provider: "apns")
    return try APNsCredential(
        key: try FileContents.read(path),
        source: path,
        keyID: try required("key-id", in: arguments, provider: "apns"),
        teamID: try required("team-id", in: arguments, provider: "apns"),
        topic: try required("topic", in: arguments, provider: "apns"),
        environment: try required("environment", in: arguments, provider: "apns")
    )
}

private func required(
    _ name: String,
    in arguments: ParsedArguments,
    provider: String
) throws(CommandError) -> String {
    if let value = arguments.text(name), !value.isEmpty { return value }
    throw CommandError(
        .usage,
        "--\(name) is missing, and \(provider) needs it",
        advice: "See peal credential add --help"
    )
}

private func refuse(
    _ names: [String],
    in arguments: ParsedArguments,
    provider: String
) throws(CommandError) {
    for name in names where arguments.text(name) != nil {
        throw CommandError(.usage, "--\(name) means nothing for \(provider)", advice: "See peal credential add --help")
    }
}
