import HTTP2
import OpenSSL
import PushCore

/// The pools of one HTTP/2 client: one per endpoint and account. Used by one lane's worker.
struct ConnectionPools {
    /// What connections may be shared by: APNs binds a connection to a team and key.
    private struct Key: Hashable {
        let counted: ProviderHolds.Account
        let credential: CredentialID
    }

    private struct Entry {
        let pool: PoolID
        var bearer: Bearer?
        var usedAt: ContinuousClock.Instant
        var overloadedAt: ContinuousClock.Instant?
        var renewedAt: ContinuousClock.Instant?
    }

    private let client: HTTP2Client
    private let tls: TLSContext
    private let maximumConnections: Int
    private var entries: [Key: Entry] = [:]

    /// A pool that was not used for so long is closed.
    private static let idleLimit: Duration = .seconds(1_800)
    /// A burst of the same complaint counts once.
    private static let reportInterval: Duration = .milliseconds(250)
    private static let renewInterval: Duration = .seconds(1)

    init(client: HTTP2Client, tls: TLSContext, maximumConnections: Int) {
        self.client = client
        self.tls = tls
        self.maximumConnections = maximumConnections
    }

    /// The pool of a credential, with its bearer set.
    mutating func pool(for credential: ProviderCredential, bearer: Bearer) throws(HTTP2Error) -> PoolID {
        let key = Self.key(of: credential)
        let now = ContinuousClock.now
        var entry =
            entries[key]
            ?? Entry(pool: client.makePool(configuration(for: credential)), bearer: nil, usedAt: now)
        if entry.bearer != bearer {
            let isIndexed = Self.mayKeepBearer(of: credential)
            try client.setField("authorization", value: bearer.value, isIndexed: isIndexed, of: entry.pool)
            entry.bearer = bearer
        }
        entry.usedAt = now
        entries[key] = entry
        closeIdle(now: now)
        return entry.pool
    }

    /// The provider asks for less. A burst of such answers counts once.
    mutating func reportOverload(of credential: ProviderCredential) {
        guard let entry = entries[Self.key(of: credential)] else { return }
        let now = ContinuousClock.now
        if let last = entry.overloadedAt, now - last < Self.reportInterval { return }
        entries[Self.key(of: credential)]?.overloadedAt = now
        client.reportOverload(entry.pool)
    }

    /// What is sent next goes over new connections. A burst counts once.
    mutating func renewConnections(of credential: ProviderCredential) {
        guard let entry = entries[Self.key(of: credential)] else { return }
        let now = ContinuousClock.now
        if let last = entry.renewedAt, now - last < Self.renewInterval { return }
        entries[Self.key(of: credential)]?.renewedAt = now
        client.renewConnections(of: entry.pool)
    }

    private mutating func closeIdle(now: ContinuousClock.Instant) {
        guard entries.count > 1 else { return }
        for (key, entry) in entries where now - entry.usedAt > Self.idleLimit {
            client.closePool(entry.pool, within: .seconds(60))
            entries[key] = nil
        }
    }

    private static func key(of credential: ProviderCredential) -> Key {
        Key(counted: credential.counted, credential: credential.id)
    }

    /// Whether the provider may keep the bearer in the connection's header table. Apple asks for a provider token with
    /// each request; Google's tokens are long, and hold too much chance to be guessed (RFC 7541, 7.1.3).
    private static func mayKeepBearer(of credential: ProviderCredential) -> Bool {
        switch credential.account {
        case .apns: false
        case .fcm: true
        }
    }

    private func configuration(for credential: ProviderCredential) -> PoolConfiguration {
        let endpoint = credential.endpoint
        var configuration = PoolConfiguration(host: endpoint.host, port: endpoint.port, tls: tls)
        configuration.maximumConnections = maximumConnections
        switch credential.account {
        case .apns:
            configuration.initialStreams = 1
            configuration.responseFields = AnswerField.allCases.map(\.name)
            configuration.pingAfterIdle = .seconds(3_000)
            configuration.maximumAge = .seconds(6 * 3_600)
            configuration.idleTimeout = .seconds(1_800)
        case .fcm:
            // FCM's own client keeps to 100 streams a connection, and an idle one is better closed than pinged.
            configuration.initialStreams = 100
            configuration.maximumStreams = 100
            configuration.maximumConnections = max(maximumConnections, 10)
            configuration.responseFields = AnswerField.allCases.map(\.name)
            configuration.idleTimeout = .seconds(240)
        }
        return configuration
    }
}

/// The response fields that are kept, in the order in which completions have them.
enum AnswerField: Int, CaseIterable {
    case apnsID, apnsUniqueID, retryAfter

    var name: String {
        switch self {
        case .apnsID: "apns-id"
        case .apnsUniqueID: "apns-unique-id"
        case .retryAfter: "retry-after"
        }
    }
}
