/// Credentials that the simulator accepts, in the form in which a client is given them.
package struct SimulatorCredentials: Sendable {
    /// The APNs keys, the first of which is the one to use.
    package let apnsKeys: [APNsSigningKey]
    /// A service-account JSON whose `token_uri` points at the simulator.
    package let serviceAccountJSON: String
    package let projectID: String
}
