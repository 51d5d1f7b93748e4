/// A header field of a request.
package struct HeaderField: Sendable, Hashable {
    package let name: String
    /// Of `authorization` the scheme and 16 hex digits of a hash.
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// One request as the simulator received it, and what it decided to answer.
package struct RequestRecord: Sendable, Hashable {
    /// Order of arrival over all roles, from 1.
    package var number = 0
    /// UNIX microseconds by the simulator's clock.
    package var receivedAt: Int64 = 0
    package var role: ProviderRole = .apnsProduction
    /// Connections are numbered from 1 in order of acceptance.
    package var connection = 0
    package var stream: Int32 = 0
    /// APNs: the token of the path. FCM: the registration token, or the other target. OAuth: empty.
    package var token = ""
    package var topic: String?
    package var pushType: String?
    /// APNs: the header's text. FCM: `android.priority`.
    package var priority: String?
    /// APNs: the header's text. FCM: `android.ttl`.
    package var expiration: String?
    package var collapseID: String?
    /// The apns-id that was sent, or the one that the simulator made; FCM: the message name of the answer.
    package var messageID: String?
    /// The first 16 hex digits of a hash of the bearer token; nil without one.
    package var bearerHash: String?
    package var payloadBytes = 0
    /// Only if the options ask for it; at most 64 KiB of it.
    package var body: [UInt8]?
    /// All header fields as they were received, `:method` and `:path` among them; only if the options ask for it.
    package var headers: [HeaderField]?
    /// HTTP status that was decided; 0 when the request gets no answer.
    package var status = 0
    /// The reason or error code of the answer, or the name of the fault; nil when accepted.
    package var reason: String?
    /// FCM: the message has a `notification`, so that it is collapsible whatever its key.
    package var isNotification = false
    /// True for FCM's `validate_only`.
    package var validateOnly = false

    /// True if the provider took the message over.
    package var isAccepted: Bool { status == 200 && reason == nil && !validateOnly }

    /// The same request above a GOAWAY's last stream id.
    var excluded: RequestRecord {
        var copy = self
        copy.status = 0
        copy.reason = "goaway"
        return copy
    }
}

/// One connection, as far as it got.
package struct ConnectionRecord: Sendable, Hashable {
    package let number: Int
    package let role: ProviderRole
    /// Requests received whole.
    package var requests = 0
    /// Most streams open at one moment.
    package var peakOpenStreams = 0
    package var pings = 0
    /// Streams that the client reset.
    package var resetsByPeer = 0
    package var isOpen = true

    init(number: Int, role: ProviderRole) {
        self.number = number
        self.role = role
    }
}

/// Sums over everything since the start (or the last `forget`).
package struct SimulatorTotals: Sendable, Hashable {
    /// Requests received whole, all roles.
    package var requests = 0
    package var accepted = 0
    package var rejected = 0
    /// Requests that got no answer on purpose.
    package var unanswered = 0
    package var connectionsOpened = 0
    package var connectionsOpen = 0
    package var handshakesFailed = 0
    /// Requests by role, in the order of `ProviderRole.allCases`.
    package var requestsByRole = [Int](repeating: 0, count: ProviderRole.allCases.count)
    /// Body bytes of all requests.
    package var payloadBytes = 0
    /// Records that fell out of the ledger because it was full.
    package var recordsDropped = 0

    package init() {}

    /// Requests that a role received.
    package func requests(to role: ProviderRole) -> Int { requestsByRole[role.index] }
}

/// Requests and acceptances of one token.
package struct TokenCount: Sendable, Hashable {
    package var requests = 0
    package var accepted = 0

    package init() {}
}
