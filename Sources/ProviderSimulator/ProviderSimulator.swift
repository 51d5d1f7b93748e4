import Glibc
import Synchronization

/// APNs, FCM and the Google token endpoint as one local server: real TLS, real HTTP/2, scripted behaviour.
///
/// It shares no code with the client under test. One thread serves all roles; everything here may be called from anywhere.
package final class ProviderSimulator: Sendable {
    /// Where each started role listens.
    package let endpoints: [ProviderRole: ProviderEndpoint]
    /// PEM file of the certificate authority that clients must trust (`PEAL_CA_FILE`).
    package let caFile: String
    /// The credentials to use, as they were at start.
    package let credentials: SimulatorCredentials
    package let control: SimulatorControl
    package let ledger: Ledger
    /// The devices behind the providers; none unless a test adds some.
    package let devices: DeviceRegistry
    /// Nil unless the options name a file.
    package let ledgerFile: LedgerFile?
    package let clock: SimulatorClock

    let store: CredentialStore
    let tokenURI: String
    private let wakeup: Wakeup
    private let listeners: [Listener]
    private let ownDirectory: String?
    private let thread = Mutex<pthread_t?>(nil)
    private let meter = CPUMeter()
    private let options: SimulatorOptions

    /// Binds the ports, makes certificates and keys, and starts the thread. Returns when clients may connect.
    ///
    /// Throws `SimulatorError`. Making the RSA key of the service account takes up to half a second, once per process.
    package static func start(
        _ options: SimulatorOptions = SimulatorOptions()
    ) throws(SimulatorError) -> ProviderSimulator {
        if let asked = options.directory {
            return try ProviderSimulator(options, directory: SimulatorFiles.ensureDirectory(asked), isOwn: false)
        }
        let directory = try SimulatorFiles.makeTemporaryDirectory()
        do throws(SimulatorError) {
            return try ProviderSimulator(options, directory: directory, isOwn: true)
        } catch {
            SimulatorFiles.removeDirectory(directory)
            throw error
        }
    }

    private init(_ asked: SimulatorOptions, directory: String, isOwn: Bool) throws(SimulatorError) {
        let options = try ControlFile.options(asked)
        self.options = options
        let identity = try TestIdentity.shared()
        let wakeup = try Wakeup()
        self.wakeup = wakeup
        clock = options.clock
        ownDirectory = isOwn ? directory : nil
        caFile = directory + "/ca.pem"
        try SimulatorFiles.write(identity.certificate.authorityPEM, to: caFile, mode: 0o644)
        let control = SimulatorControl(latencyMilliseconds: options.latencyMilliseconds) { wakeup.wake() }
        self.control = control
        let devices = DeviceRegistry(clock: options.clock, refusesUnknown: options.refusesUnknownDevices)
        self.devices = devices
        ledger = Ledger(depth: options.ledger, maximumRecords: options.maximumRecords)
        ledgerFile = try options.ledgerFile.map { path throws(SimulatorError) in try LedgerFile(path: path) }
        let controlFile = try options.controlFile.map { path throws(SimulatorError) in
            try ControlFile(path: path, control: control, clock: options.clock, devices: devices)
        }

        listeners = try Self.bind(options)
        endpoints = Dictionary(
            uniqueKeysWithValues: listeners.map { listener in
                (
                    listener.role,
                    ProviderEndpoint(
                        role: listener.role,
                        host: "localhost",
                        port: listener.port,
                        isPlainText: options.isPlainText
                    )
                )
            }
        )
        tokenURI = (endpoints[.oauth]?.url ?? "https://localhost") + "/token"
        store = CredentialStore()
        credentials = try identity.credentials(for: options, tokenURI: tokenURI, store: store)
        let seed = ServerLoop.Seed(
            options: options,
            listeners: listeners,
            wakeup: wakeup,
            certificate: identity.certificate,
            meter: meter,
            ledger: ledger,
            ledgerFile: ledgerFile,
            control: control,
            controlFile: controlFile,
            store: store,
            devices: devices,
            tokenURI: tokenURI
        )
        let started = try SimulatorThread.start(seed)
        thread.withLock { $0 = started }
    }

    deinit { stop() }

    private static func bind(_ options: SimulatorOptions) throws(SimulatorError) -> [Listener] {
        var bound: [Listener] = []
        for role in ProviderRole.allCases where options.roles.contains(role) {
            do {
                bound.append(
                    try Listener(role: role, address: options.bindAddress, port: options.ports[role] ?? 0)
                )
            } catch {
                for listener in bound { listener.close() }
                throw error
            }
        }
        return bound
    }

    /// What the run came to so far; after `stop` it changes no more.
    package var summary: SimulatorSummary {
        SimulatorSummary(
            mode: options.mode,
            notChecked: options.notChecked,
            totals: ledger.totals,
            cpuSeconds: meter.seconds,
            roundTripMilliseconds: options.roundTripMilliseconds
        )
    }

    /// Closes everything and waits for the thread. Doing it twice is harmless.
    package func stop() {
        let running = thread.withLock { thread in
            defer { thread = nil }
            return thread
        }
        guard let running else { return }
        wakeup.stop()
        pthread_join(running, nil)
        for listener in listeners { listener.close() }
        if let ownDirectory { SimulatorFiles.removeDirectory(ownDirectory) }
    }
}

extension ProviderSimulator {
    /// The endpoint of a role; stops the program if that role was not started.
    package func endpoint(_ role: ProviderRole) -> ProviderEndpoint {
        guard let endpoint = endpoints[role] else {
            preconditionFailure("the simulator does not play \(role.rawValue)")
        }
        return endpoint
    }

    /// PKCS#8 PEM of the APNs key.
    package var apnsKeyPEM: String { credentials.apnsKeys[0].privateKeyPEM }
    /// Key id of the APNs key.
    package var keyID: String { credentials.apnsKeys[0].keyID }
    /// Team id of the APNs key.
    package var teamID: String { credentials.apnsKeys[0].teamID }
    /// The service account as Google hands it out, with `token_uri` pointing here.
    package var serviceAccountJSON: String { credentials.serviceAccountJSON }
    /// Project of the service account.
    package var projectID: String { credentials.projectID }

    /// Makes and accepts one more APNs key. Throws `SimulatorError` if OpenSSL cannot make one.
    package func makeAPNsKey(
        teamID: String? = nil,
        environments: Set<ProviderRole> = [.apnsProduction, .apnsSandbox],
        relatedTo relatedKeyIDs: Set<String> = []
    ) throws(SimulatorError) -> APNsSigningKey {
        let key = APNsSigningKey(
            keyID: TestIdentity.makeKeyID(),
            teamID: teamID ?? self.teamID,
            privateKeyPEM: try CryptoKey.makeP256().privatePEM(),
            environments: environments,
            relatedKeyIDs: relatedKeyIDs
        )
        let known = try ProviderTokenVerifier.KnownKey(key)
        store.change { $0.apnsKeys.append(known) }
        return key
    }

    /// Refuses an APNs key from now on, as after its revocation: InvalidProviderToken.
    package func revokeAPNsKey(_ keyID: String) {
        store.change { $0.apnsKeys.removeAll { $0.key.keyID == keyID } }
    }

    /// Makes and accepts one more service account with a key of its own, as JSON. Takes up to half a second.
    package func makeServiceAccount(
        projectID: String? = nil,
        clientEmail: String? = nil
    ) throws(SimulatorError) -> String {
        let project = projectID ?? self.projectID
        let account = OAuthAccount(
            projectID: project,
            clientEmail: clientEmail ?? "sender@\(project).iam.gserviceaccount.com",
            privateKeyID: TestIdentity.makeHexID(),
            privateKeyPEM: try CryptoKey.makeRSA().privatePEM()
        )
        let known = try OAuthService.KnownAccount(account)
        store.change { $0.accounts.append(known) }
        return serviceAccountText(account, tokenURI: tokenURI)
    }

    /// Refuses the key of a service account from now on: invalid_grant. Access tokens already given out stay valid.
    package func revokeServiceAccountKey(_ privateKeyID: String) {
        store.change { $0.accounts.removeAll { $0.account.privateKeyID == privateKeyID } }
    }

    /// Makes every access token given out so far expire: FCM answers 401 until a new one comes.
    package func expireAccessTokens() {
        store.change { $0.accessTokenEpoch += 1 }
    }

    /// Writes `apns-key.p8`, `apns.json` (key id, team id), `service-account.json` and `ca.pem` into a directory.
    package func writeCredentials(to directory: String) throws(SimulatorError) {
        let directory = try SimulatorFiles.ensureDirectory(directory)
        try SimulatorFiles.write(apnsKeyPEM, to: directory + "/apns-key.p8", mode: 0o600)
        let apns = "{\"key_id\":\(jsonQuoted(keyID)),\"team_id\":\(jsonQuoted(teamID)),\"key_file\":\"apns-key.p8\"}\n"
        try SimulatorFiles.write(apns, to: directory + "/apns.json", mode: 0o600)
        try SimulatorFiles.write(serviceAccountJSON, to: directory + "/service-account.json", mode: 0o600)
        try SimulatorFiles.copy(caFile, to: directory + "/ca.pem")
    }
}
