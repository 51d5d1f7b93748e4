import OpenSSL
import ProviderSimulator
import PushCore

/// What the tests of the simulator share: starting it, signing tokens, sending ordinary requests.
struct Fixture {
    let simulator: ProviderSimulator

    /// 1 January 2026, so that ages and dates in tests are round.
    static let now: Int64 = 1_767_225_600

    init(_ change: (inout SimulatorOptions) -> Void = { _ in }) throws {
        var options = SimulatorOptions()
        options.clock = SimulatorClock(fixedAt: Self.now * 1000)
        options.keepsBodies = true
        change(&options)
        simulator = try ProviderSimulator.start(options)
    }

    func connect(_ role: ProviderRole = .apnsProduction) throws -> RawClient {
        try RawClient(port: simulator.endpoint(role).port, caFile: simulator.caFile)
    }

    // MARK: APNs

    /// A provider token of the simulator's key, or with anything of it changed.
    func providerToken(
        key: APNsSigningKey? = nil,
        keyID: String? = nil,
        teamID: String? = nil,
        issuedAt: Int64 = Fixture.now,
        algorithm: String = "ES256"
    ) throws -> String {
        let key = key ?? simulator.credentials.apnsKeys[0]
        let signer = try SigningKey(pem: Array(key.privateKeyPEM.utf8), algorithm: .es256, purpose: "the test key")
        let token = try JSONWebToken.make(
            header: Array("{\"alg\":\"\(algorithm)\",\"kid\":\"\(keyID ?? key.keyID)\"}".utf8),
            claims: Array("{\"iss\":\"\(teamID ?? key.teamID)\",\"iat\":\(issuedAt)}".utf8),
            signedWith: signer
        )
        return String(decoding: token, as: UTF8.self)
    }

    static let alert = "{\"aps\":{\"alert\":\"hi\"}}"

    /// Headers of a good alert; a nil value takes a header away, a new name adds one.
    func alertHeaders(_ changes: [String: String?] = [:], token: String? = nil) throws -> [(String, String)] {
        var headers: [String: String] = [
            "authorization": "bearer \(try token ?? providerToken())",
            "apns-topic": "com.example.app",
            "apns-push-type": "alert",
            "apns-id": "6f1d3c52-0d0b-4f7e-9a57-1e0f5f2f9b10",
            "apns-expiration": "1767229200",
            "apns-priority": "10",
        ]
        for (name, value) in changes { headers[name] = value }
        return headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    static func path(_ token: String) -> String { "/3/device/\(token)" }

    /// A token of 64 hex digits that begins with a word.
    static func token(_ word: String = "ab") -> String {
        word + String(repeating: "c", count: 64 - word.utf8.count)
    }

    // MARK: FCM

    /// A signed assertion of the simulator's service account, or with anything of it changed.
    func assertion(
        _ changes: [String: String?] = [:],
        pem: String? = nil,
        issuedAt: Int64 = Fixture.now,
        lifetime: Int64 = 3600
    ) throws -> String {
        var claims: [String: String] = [
            "iss": "\"sender@\(simulator.projectID).iam.gserviceaccount.com\"",
            "scope": "\"https://www.googleapis.com/auth/firebase.messaging\"",
            "aud": "\"\(simulator.endpoint(.oauth).url)/token\"",
            "iat": "\(issuedAt)",
            "exp": "\(issuedAt + lifetime)",
        ]
        for (name, value) in changes { claims[name] = value }
        let text = claims.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
        let key = try pem ?? serviceAccountKey()
        let token = try JSONWebToken.make(
            header: Array("{\"alg\":\"RS256\",\"typ\":\"JWT\"}".utf8),
            claims: Array("{\(text)}".utf8),
            signedWith: try SigningKey(pem: Array(key.utf8), algorithm: .rs256, purpose: "the test account")
        )
        return String(decoding: token, as: UTF8.self)
    }

    /// The private key inside the service-account JSON.
    func serviceAccountKey() throws -> String {
        let json = simulator.serviceAccountJSON
        guard let start = json.firstRange(of: "-----BEGIN"), let end = json.firstRange(of: "-----END PRIVATE KEY-----")
        else {
            throw RawClient.Failure(description: "no key in the service account")
        }
        return json[start.lowerBound..<end.upperBound].replacing("\\n", with: "\n") + "\n"
    }

    func form(_ assertion: String) -> String {
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
    }

    func requestToken(_ client: RawClient, _ assertion: String) throws -> RawClient.Answer {
        try client.answer(
            "POST",
            "/token",
            headers: [("content-type", "application/x-www-form-urlencoded")],
            body: form(assertion)
        )
    }

    /// A good access token.
    func accessToken() throws -> String {
        let answer = try requestToken(try connect(.oauth), try assertion())
        let parts = answer.text.split(separator: "\"")
        guard let name = parts.firstIndex(of: "access_token"), name + 2 < parts.endIndex else {
            throw RawClient.Failure(description: "no access token: \(answer.text)")
        }
        return String(parts[name + 2])
    }

    var sendPath: String { "/v1/projects/\(simulator.projectID)/messages:send" }

    func bearer(_ token: String) -> [(String, String)] {
        [("authorization", "Bearer \(token)"), ("content-type", "application/json")]
    }
}
