/// Which provider host serves a recipient. The raw value stands in hot tables.
package enum Route: Int16, Sendable, CaseIterable, Hashable {
    case apnsProduction = 1
    case apnsSandbox = 2
    case fcm = 3

    /// Whether the requests speak APNs.
    package var isAPNs: Bool { self != .fcm }

    /// The word for logs and metrics.
    package var name: String {
        switch self {
        case .apnsProduction: "apns_production"
        case .apnsSandbox: "apns_sandbox"
        case .fcm: "fcm"
        }
    }
}
