import OpenSSL
import PushCore

/// What an app signs in with at a provider, opened and ready to sign.
final class ProviderCredential: Sendable {
    /// Which row it is, and which version of it: whatever was learned about an older version does not count.
    struct Version: Hashable, Sendable {
        let id: CredentialID
        let updatedAt: WallClock.Instant
    }

    /// What differs by provider.
    enum Account: Sendable {
        case apns(keyID: String, teamID: String, topic: String, isSandbox: Bool)
        case fcm(projectID: String, clientEmail: String, tokenEndpoint: Endpoint, tokenURI: String, keyID: String?)
    }

    let version: Version
    let app: AppID
    let account: Account
    let endpoint: Endpoint
    let signingKey: SigningKey
    /// Whom the provider counts when it limits what is sent.
    let counted: ProviderHolds.Account

    var id: CredentialID { version.id }

    var scheme: Bearer.Scheme {
        switch account {
        case .apns: .apns
        case .fcm: .google
        }
    }

    init(version: Version, app: AppID, account: Account, endpoint: Endpoint, signingKey: SigningKey) {
        self.version = version
        self.app = app
        self.account = account
        self.endpoint = endpoint
        self.signingKey = signingKey
        let name =
            switch account {
            case .apns(let keyID, let teamID, _, _): "\(teamID)/\(keyID)"
            case .fcm(let projectID, _, _, _, _): projectID
            }
        counted = ProviderHolds.Account(endpoint: endpoint, name: name)
    }

    /// The settings to look at when the provider refuses it, for the log.
    var settingsHint: String {
        switch account {
        case .apns(let keyID, let teamID, let topic, let isSandbox):
            "Check key id \(keyID), team id \(teamID), topic \(topic), environment "
                + (isSandbox ? "sandbox" : "production") + ", and that the clock is right"
        case .fcm(let projectID, let clientEmail, _, _, _):
            "Check project \(projectID), service account \(clientEmail), its roles, and that the clock is right"
        }
    }
}
