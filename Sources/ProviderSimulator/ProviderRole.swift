/// One of the servers that the simulator plays; each has a listener and a port of its own.
package enum ProviderRole: String, Sendable, Hashable, CaseIterable {
    case apnsProduction = "apns-production"
    case apnsSandbox = "apns-sandbox"
    case fcm = "fcm"
    case oauth = "oauth"

    /// True for both APNs environments.
    package var isAPNs: Bool { self == .apnsProduction || self == .apnsSandbox }

    /// A small number for arrays indexed by role.
    var index: Int {
        switch self {
        case .apnsProduction: 0
        case .apnsSandbox: 1
        case .fcm: 2
        case .oauth: 3
        }
    }
}

/// Where a role listens.
package struct ProviderEndpoint: Sendable, Hashable {
    package let role: ProviderRole
    /// The name in the certificate that clients should ask for: `localhost`.
    package let host: String
    package let port: Int

    let isPlainText: Bool

    /// `localhost:12345`
    package var authority: String { "\(host):\(port)" }
    /// `https://localhost:12345` (`http:` without TLS), without a slash at the end.
    package var url: String { (isPlainText ? "http://" : "https://") + authority }
}
