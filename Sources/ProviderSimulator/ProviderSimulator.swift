/// APNs, FCM and the Google token endpoint as one local server: real TLS, real HTTP/2, scripted behaviour.
///
/// It shares no code with the client under test. One thread serves all roles; everything here may be called from anywhere.
package final class ProviderSimulator: Sendable {
    /// Where each started role listens.
    package let endpoints: [ProviderRole: ProviderEndpoint]
    /// PEM file of the certificate authority that clients must trust (`PEAL_CA_FILE`).
    package let caFile: String
    package let credentials: SimulatorCredentials
    package let control: SimulatorControl
    package let ledger: Ledger
    package let clock: SimulatorClock

    init(
        endpoints: [ProviderRole: ProviderEndpoint],
        caFile: String,
        credentials: SimulatorCredentials,
        control: SimulatorControl,
        ledger: Ledger,
        clock: SimulatorClock
    ) {
        self.endpoints = endpoints
        self.caFile = caFile
        self.credentials = credentials
        self.control = control
        self.ledger = ledger
        self.clock = clock
    }

    /// Binds the ports, makes certificates and keys, and starts the thread. Returns when clients may connect.
    ///
    /// Throws `SimulatorError`. Making the RSA key of the service account takes up to half a second, once per process.
    package static func start(
        _ options: SimulatorOptions = SimulatorOptions()
    ) throws(SimulatorError) -> ProviderSimulator {
        throw SimulatorError(code: .session, context: "the loop is not part of this build yet")
    }

    /// Closes everything and waits for the thread. Doing it twice is harmless.
    package func stop() {}
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
    package var keyID: String { credentials.apnsKeys[0].keyID }
    package var teamID: String { credentials.apnsKeys[0].teamID }
    package var serviceAccountJSON: String { credentials.serviceAccountJSON }
    package var projectID: String { credentials.projectID }

    /// Writes `apns-key.p8`, `apns.json` (key id, team id), `service-account.json` and `ca.pem` into a directory.
    package func writeCredentials(to directory: String) throws(SimulatorError) {
        throw SimulatorError(code: .file, context: "cannot write credentials to \(directory) yet")
    }
}
