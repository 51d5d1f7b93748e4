import PealRuntime
import PushCore

extension Command {
    static let credentialRemove = Command(
        "remove",
        summary: "removes a credential and its key",
        positionals: [.app, Positional("ID", "the credential's id, as 'peal credential list' shows it")],
        examples: [Example("peal credential remove shop 3", "forgets the key of credential 3")]
    ) { arguments in
        guard let id = Int64(arguments.positional("ID")), id > 0 else {
            throw CommandError(.usage, "'\(arguments.positional("ID"))' is not the id of a credential", at: "ID")
        }
        let connection = try await Database.open(purpose: "credential remove")
        let app = try await Apps(connection).find(arguments.positional("APP"))
        try await Credentials(connection).remove(CredentialID(id), of: app)
        try StandardOutput.line("credential \(id) is removed")
        return .success
    }
}
