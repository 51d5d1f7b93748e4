import OpenSSL
import PushCore

/// A Google service account as a person hands it in, checked: its key has signed once, and no needed part is missing.
package struct FCMCredential: Sendable {
    /// The file as it was, which is what gets sealed.
    package let json: [UInt8]
    package let projectID: String
    package let clientEmail: String
    package let tokenURI: String

    /// Checks a service account file. Throws status 4 that names the member at fault.
    package init(json: [UInt8], source: String) throws(CommandError) {
        let account = try Self.object(json, source)
        if let kind = Self.otherKind(account) {
            throw Self.refusal("this is \(kind), not a service account", source)
        }
        let type = try Self.text("type", of: account, source)
        guard type == "service_account" else {
            throw Self.refusal("type is '\(type)', not 'service_account'", source)
        }
        projectID = try Self.text("project_id", of: account, source)
        clientEmail = try Self.text("client_email", of: account, source)
        tokenURI = try Self.text("token_uri", of: account, source)
        _ = try CredentialEndpoint.checked(tokenURI, named: "token_uri", allowsPath: true)
        let isPlain = projectID.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") }
        guard isPlain else { throw Self.refusal("project_id '\(projectID)' cannot stand in a path", source) }
        let key = try Self.text("private_key", of: account, source)
        do {
            let pem = try PEMText.normalised(Array(key.utf8), purpose: "private_key")
            _ = try SigningKey(pem: pem, algorithm: .rs256, purpose: "private_key")
        } catch {
            throw Self.refusal(error.message, source)
        }
        self.json = json
    }

    private static func object(_ json: [UInt8], _ source: String) throws(CommandError) -> JSONObject {
        if json.starts(with: Array("-----BEGIN".utf8)) {
            throw refusal("it is a PEM key, as APNs has it; expected is the service account's JSON file", source)
        }
        let value: JSONValue
        do {
            // Editors on other systems begin a file with a byte order mark.
            let text = json.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(json.dropFirst(3)) : json
            value = try JSONValue.parse(text, root: "service account")
        } catch {
            throw refusal("it is not JSON (\(error.description)); expected is the service account's JSON file", source)
        }
        guard case .object(let account) = value else {
            throw refusal("the service account must be a JSON object, found \(value.kindName)", source)
        }
        return account
    }

    private static func text(_ key: String, of account: JSONObject, _ source: String) throws(CommandError) -> String {
        switch account[key] {
        case .string(let text)? where !text.isEmpty: return text
        case .string?: throw refusal("\(key) is empty", source)
        case nil, .null?: throw refusal("\(key) is missing", source)
        case let value?: throw refusal("\(key) must be text, found \(value.kindName)", source)
        }
    }

    /// Files from the same consoles that people take for it.
    private static func otherKind(_ account: JSONObject) -> String? {
        if account["project_info"] != nil { return "google-services.json, which belongs into the Android app" }
        if account["installed"] != nil || account["web"] != nil { return "an OAuth client file" }
        if account["server_key"] != nil || account["api_key"] != nil { return "a key of the former FCM interface" }
        return nil
    }

    private static func refusal(_ what: String, _ source: String) -> CommandError {
        CommandError(
            .refused,
            what,
            at: source,
            advice:
                "make one in the Firebase console under Project settings, Service accounts, Generate new private key"
        )
    }
}
