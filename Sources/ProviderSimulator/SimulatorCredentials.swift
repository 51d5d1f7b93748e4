import Synchronization

/// Credentials that the simulator accepts, in the form in which a client is given them.
package struct SimulatorCredentials: Sendable {
    /// The APNs keys, the first of which is the one to use.
    package let apnsKeys: [APNsSigningKey]
    /// A service-account JSON whose `token_uri` points at the simulator.
    package let serviceAccountJSON: String
    package let projectID: String
}

/// The credentials that are accepted now; changed by tests while the loop reads them.
final class CredentialStore: Sendable {
    struct Book: Sendable {
        var apnsKeys: [ProviderTokenVerifier.KnownKey] = []
        var accounts: [OAuthService.KnownAccount] = []
        /// Access tokens given out before this number grew are void.
        var accessTokenEpoch = 0
    }

    private let state = Mutex(Book())
    private let version = Atomic<Int>(1)

    var book: Book { state.withLock { $0 } }
    var currentVersion: Int { version.load(ordering: .acquiring) }

    func change(_ change: (inout Book) -> Void) {
        state.withLock { change(&$0) }
        version.add(1, ordering: .releasing)
    }
}

/// A service account as the JSON that Google hands out.
func serviceAccountText(_ account: OAuthAccount, tokenURI: String) -> String {
    """
    {
      "type": "service_account",
      "project_id": \(jsonQuoted(account.projectID)),
      "private_key_id": \(jsonQuoted(account.privateKeyID)),
      "private_key": \(jsonQuoted(account.privateKeyPEM)),
      "client_email": \(jsonQuoted(account.clientEmail)),
      "client_id": "100000000000000000001",
      "token_uri": \(jsonQuoted(tokenURI)),
      "universe_domain": "googleapis.com"
    }

    """
}

extension APNsSigningKey {
    /// A key from a `.p8` file, for both environments. Throws if the file cannot be read; the key is checked at start.
    package init(keyID: String, teamID: String, file: String) throws(SimulatorError) {
        let text = String(decoding: try SimulatorFiles.read(file), as: UTF8.self)
        self.init(keyID: keyID, teamID: teamID, privateKeyPEM: text)
    }
}

extension OAuthAccount {
    /// A service account from the JSON file that Google hands out. Throws when a field is missing, naming it.
    package init(file: String) throws(SimulatorError) {
        let tree = JSONText.parse(try SimulatorFiles.read(file))
        func field(_ name: String) throws(SimulatorError) -> String {
            guard let text = tree?[name]?.string, !text.isEmpty else {
                throw SimulatorError(code: .file, context: "\(file) has no \"\(name)\": is it a service account JSON?")
            }
            return text
        }
        self.init(
            projectID: try field("project_id"),
            clientEmail: try field("client_email"),
            privateKeyID: try field("private_key_id"),
            privateKeyPEM: try field("private_key"),
            tokenURI: tree?["token_uri"]?.string
        )
    }
}
