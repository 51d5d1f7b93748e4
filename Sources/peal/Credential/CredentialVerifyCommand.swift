import PealRuntime

extension Command {
    static let credentialVerify = Command(
        "verify",
        summary: "asks the providers whether they take the credentials of an app",
        discussion: """
            Sends one request per credential: to APNs with a token that no device has, to FCM with validate_only. Nothing
            is shown anywhere. What the provider says is recorded: a refused credential that is taken again is used again.
            Exit status 5 when one was not accepted.
            """,
        positionals: [.app],
        options: [RowPrinter.formatOption],
        examples: [Example("peal credential verify shop", "proves that shop can send")]
    ) { arguments in
        let settings = Settings.fromEnvironment()
        let sealingKey = try settings.requireMasterKey()
        let caFile = try settings.usableCAFile()
        let connection = try await Database.open(settings, purpose: "credential verify")
        let app = try await Apps(connection).find(arguments.positional("APP"))
        let verification = CredentialVerification(
            connection,
            sealingKey: sealingKey,
            caFile: caFile,
            logger: try settings.logger()
        )
        let result = try await verification.run(app)
        if result.rows.isEmpty {
            throw CommandError(
                .refused,
                "the app has no credential",
                advice: "add one: peal credential add APP apns|fcm …"
            )
        }
        var printer = RowPrinter(columns: CredentialVerification.columns, arguments: arguments)
        try printer.print(result.rows)
        return result.areAllAccepted ? .success : .notDelivered
    }
}
