import OpenSSL
import Postgres
import PushCore

/// A row of `peal.credential` as it was read.
struct CredentialRow: Sendable {
    let version: ProviderCredential.Version
    let app: AppID
    let provider: String
    let environment: String?
    let keyID: String?
    let teamID: String?
    let topic: String?
    let projectID: String?
    let clientEmail: String?
    let tokenURI: String?
    let endpoint: String?
    let sealed: [UInt8]
    let state: String
    let stateReason: String?
    /// How long its provider still wants nothing from its account, when it was read, and why.
    let heldFor: Duration
    let holdReason: String

    init(_ rows: PostgresRows, row: Int) throws(PostgresError) {
        version = ProviderCredential.Version(
            id: CredentialID(try rows.int64(row, 0)),
            updatedAt: try rows.timestamp(row, 14)
        )
        app = AppID(try rows.int32(row, 1))
        provider = try rows.text(row, 2)
        environment = try rows.textOrNil(row, 3)
        keyID = try rows.textOrNil(row, 4)
        teamID = try rows.textOrNil(row, 5)
        topic = try rows.textOrNil(row, 6)
        projectID = try rows.textOrNil(row, 7)
        clientEmail = try rows.textOrNil(row, 8)
        tokenURI = try rows.textOrNil(row, 9)
        endpoint = try rows.textOrNil(row, 10)
        sealed = try rows.bytes(row, 11)
        state = try rows.text(row, 12)
        stateReason = try rows.textOrNil(row, 13)
        heldFor = .milliseconds(try rows.int64(row, 15))
        holdReason = try rows.textOrNil(row, 16) ?? ""
    }

    var isActive: Bool { state == "active" }

    /// Whether it serves a route.
    func serves(_ route: Route) -> Bool {
        switch route {
        case .apnsProduction: provider == "apns" && environment == "production"
        case .apnsSandbox: provider == "apns" && environment == "sandbox"
        case .fcm: provider == "fcm"
        }
    }

    /// Opens the seal and makes the credential usable.
    /// - Throws: `DeliveryError` (`configuration`) that names the credential and what is wrong; never the secret.
    func open(with masterKey: SealingKey?) throws(DeliveryError) -> ProviderCredential {
        guard let masterKey else {
            throw failure("cannot be opened: no master key is set; set PEAL_MASTER_KEY or PEAL_MASTER_KEY_FILE")
        }
        do {
            let secret = try masterKey.open(
                sealed,
                associated: CredentialSeal.associatedData(app: app, credential: version.id)
            )
            return provider == "apns" ? try openAPNs(secret) : try openFCM(secret)
        } catch let error as DeliveryError {
            throw error
        } catch {
            throw failure("cannot be opened: \(error)")
        }
    }

    private func openAPNs(_ secret: [UInt8]) throws -> ProviderCredential {
        guard let keyID, let teamID, let topic else { throw failure("lacks a key id, team id or topic") }
        let isSandbox = environment == "sandbox"
        return ProviderCredential(
            version: version,
            app: app,
            account: .apns(keyID: keyID, teamID: teamID, topic: topic, isSandbox: isSandbox),
            endpoint: try endpoint(or: isSandbox ? .apnsSandbox : .apnsProduction),
            signingKey: try SigningKey(
                pem: secret,
                algorithm: .es256,
                purpose: "the APNs key of credential \(version.id)"
            )
        )
    }

    private func openFCM(_ secret: [UInt8]) throws -> ProviderCredential {
        guard let projectID, let clientEmail, let tokenURI else {
            throw failure("lacks a project id, client email or token URI")
        }
        guard let tokenEndpoint = Endpoint(url: tokenURI) else {
            throw failure("has a token URI that is no https URL: \(tokenURI)")
        }
        guard case .object(let serviceAccount) = try JSONValue.parse(secret, root: "service account"),
            case .string(let privateKey) = serviceAccount["private_key"]
        else { throw failure("holds no service account with a private key") }
        let keyID: String? = if case .string(let text) = serviceAccount["private_key_id"] { text } else { nil }
        return ProviderCredential(
            version: version,
            app: app,
            account: .fcm(
                projectID: projectID,
                clientEmail: clientEmail,
                tokenEndpoint: tokenEndpoint,
                tokenURI: tokenURI,
                keyID: keyID
            ),
            endpoint: try endpoint(or: .fcm),
            signingKey: try SigningKey(
                pem: Array(privateKey.utf8),
                algorithm: .rs256,
                purpose: "the private key of credential \(version.id)"
            )
        )
    }

    private func endpoint(or standard: Endpoint) throws(DeliveryError) -> Endpoint {
        guard let endpoint else { return standard }
        guard let parsed = Endpoint(url: endpoint) else {
            throw failure("has an endpoint that is no https URL: \(endpoint)")
        }
        return parsed
    }

    private func failure(_ problem: String) -> DeliveryError {
        DeliveryError(.configuration, "The \(provider) credential \(version.id) of app \(app) \(problem)")
    }
}
