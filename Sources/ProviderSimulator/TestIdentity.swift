import Synchronization

/// Certificates and keys that all simulators of a process share, so that tests do not wait for key making.
final class TestIdentity: Sendable {
    let certificate: TestCertificate
    private let apnsKey: APNsSigningKey
    private let account = Mutex<OAuthAccount?>(nil)

    private static let cache = Mutex<TestIdentity?>(nil)

    /// The identity of this process; made on first use.
    static func shared() throws(SimulatorError) -> TestIdentity {
        try cache.withLock { cache throws(SimulatorError) in
            if let cached = cache { return cached }
            let made = try TestIdentity()
            cache = made
            return made
        }
    }

    private init() throws(SimulatorError) {
        certificate = try TestCertificate()
        apnsKey = APNsSigningKey(
            keyID: Self.makeKeyID(),
            teamID: "PEALTEAM01",
            privateKeyPEM: try CryptoKey.makeP256().privatePEM()
        )
    }

    /// Ten characters as Apple's key ids have.
    static func makeKeyID() -> String {
        let letters = Array("ABCDEFGHJKLMNPQRSTUVWXYZ23456789")
        return String((0..<10).map { _ in letters[Int.random(in: letters.indices)] })
    }

    /// Forty hex digits as Google's key ids have.
    static func makeHexID() -> String {
        let digits = Array("0123456789abcdef")
        return String((0..<40).map { _ in digits[Int.random(in: digits.indices)] })
    }

    /// The credentials for a run: those of the options, or those of this identity. Enters them in the store.
    func credentials(
        for options: SimulatorOptions,
        tokenURI: String,
        store: CredentialStore
    ) throws(SimulatorError) -> SimulatorCredentials {
        let keys = options.apns.keys.isEmpty ? [apnsKey] : options.apns.keys
        let accounts =
            options.oauth.accounts.isEmpty ? [try madeAccount(options.fcm.projectID)] : options.oauth.accounts
        var knownKeys: [ProviderTokenVerifier.KnownKey] = []
        for key in keys { knownKeys.append(try ProviderTokenVerifier.KnownKey(key)) }
        var knownAccounts: [OAuthService.KnownAccount] = []
        for account in accounts { knownAccounts.append(try OAuthService.KnownAccount(account)) }
        store.change { book in
            book.apnsKeys = knownKeys
            book.accounts = knownAccounts
        }
        return SimulatorCredentials(
            apnsKeys: keys,
            serviceAccountJSON: serviceAccountText(accounts[0], tokenURI: tokenURI),
            projectID: accounts[0].projectID
        )
    }

    private func madeAccount(_ projectID: String) throws(SimulatorError) -> OAuthAccount {
        var made = try account.withLock { account throws(SimulatorError) in
            if let account { return account }
            let made = OAuthAccount(
                projectID: projectID,
                clientEmail: "",
                privateKeyID: Self.makeHexID(),
                privateKeyPEM: try CryptoKey.makeRSA().privatePEM()
            )
            account = made
            return made
        }
        made.projectID = projectID
        made.clientEmail = "sender@\(projectID).iam.gserviceaccount.com"
        return made
    }
}
