/// Everything that can be set before the simulator starts.
package struct SimulatorOptions: Sendable {
    /// How much is checked.
    package enum Depth: Sendable, Hashable {
        /// Every validation row, tokens, payloads.
        case checked
        /// Nothing is checked: 200 with an apns-id or a message name. For load runs.
        case quick
    }

    /// What is remembered of the requests.
    package enum LedgerDepth: Sendable, Hashable {
        /// Totals only.
        case totals
        /// Totals and counts per token.
        case tokens
        /// Totals, counts per token, and the newest `maximumRecords` requests.
        case records
    }

    package var roles: Set<ProviderRole> = Set(ProviderRole.allCases)
    /// Address to bind; loopback unless told otherwise.
    package var bindAddress = "127.0.0.1"
    /// HTTP/2 without TLS, as a client that knows it beforehand speaks it: for load generators and hand-made frames.
    package var isPlainText = false
    /// Ports by role; 0 or absent picks a free one.
    package var ports: [ProviderRole: Int] = [:]
    /// Where `ca.pem` is written; nil makes a directory under /tmp that `stop` removes.
    package var directory: String?
    package var depth: Depth = .checked
    /// Honours token words such as `deadbeef…` and `unregistered:`.
    package var honoursTokenWords = true
    /// A token without a device in `ProviderSimulator.devices` is refused: BadDeviceToken, INVALID_ARGUMENT.
    package var refusesUnknownDevices = false
    package var ledger: LedgerDepth = .records
    /// Requests kept in memory with `records`; older ones are dropped and counted.
    package var maximumRecords = 200_000
    /// Keeps the request bodies in the records.
    package var keepsBodies = false
    /// Keeps every header field of a request in the records, authorization as a hash.
    package var keepsHeaders = false
    /// JSON lines are appended here, one per request, flushed each second and at stop.
    package var ledgerFile: String?
    /// A JSON file of rules, read again whenever it changes (looked at each 200 ms).
    package var controlFile: String?
    /// Called on the simulator's thread for each request, after it is in the ledger. Must not block.
    package var listener: (@Sendable (RequestRecord) -> Void)?
    /// Each answer waits that long.
    package var latencyMilliseconds = 0
    /// As `latencyMilliseconds`, but for the whole run and at no cost per answer worth naming, in quick runs too.
    package var roundTripMilliseconds = 0
    package var clock = SimulatorClock()
    /// Answers carry a `date` by `clock`, from which a client can see that its own clock is wrong.
    package var sendsDate = true
    package var apns = APNsOptions()
    package var fcm = FCMOptions()
    package var oauth = OAuthOptions()

    package init() {}

    /// For load runs: no checks, no token words, totals only, all streams from the start.
    package static func quick() -> SimulatorOptions {
        var options = SimulatorOptions()
        options.depth = .quick
        options.honoursTokenWords = false
        options.ledger = .totals
        // Load generators open many streams before they have read the first SETTINGS.
        options.apns.streamsAtStart = options.apns.streamsAfterAcceptance
        return options
    }
}

/// The settings of the two APNs roles.
package struct APNsOptions: Sendable {
    /// Keys that may sign provider tokens; empty makes one. Those of `ProviderSimulator.credentials`.
    package var keys: [APNsSigningKey] = []
    /// MAX_CONCURRENT_STREAMS until the first accepted request of a connection.
    package var streamsAtStart: UInt32 = 1
    /// MAX_CONCURRENT_STREAMS after it.
    package var streamsAfterAcceptance: UInt32 = 1000
    /// Lowers the limit to 1 after each rejection (not 410), back up after each acceptance.
    package var lowersStreamsAfterRejection = false
    /// `iat` may be that old.
    package var maximumTokenAgeSeconds: Int64 = 3600
    /// A changed provider token sooner than this gives 429 TooManyProviderTokenUpdates; 0 turns the check off.
    package var tokenUpdateIntervalSeconds: Int64 = 1200
    /// Looks for changed tokens over all connections of a key, not only on one connection.
    package var tokenUpdatesCountAcrossConnections = false
    /// After ExpiredProviderToken the connection goes on refusing, whatever token comes.
    package var expiredTokenSpoilsConnection = false
    /// Topics that the keys may push to (without suffix); nil allows any.
    package var topics: Set<String>?
    /// GOAWAY after that many BadDeviceToken on a connection; nil never.
    package var goAwayAfterBadTokens: Int?
    package var maximumPayloadBytes = 4096
    package var maximumVoIPPayloadBytes = 5120
}

/// The settings of the FCM role.
package struct FCMOptions: Sendable {
    /// Project of the service account that is made at start.
    package var projectID = "peal-simulated"
    package var maximumConcurrentStreams: UInt32 = 100
    package var maximumMessageBytes = 4096
    /// GOAWAY ENHANCE_YOUR_CALM (`too_many_pings`) after more than that many PINGs without a request; nil never.
    package var maximumIdlePings: Int?
    /// GOAWAY NO_ERROR (`session_timed_out`) after that long without a request; nil never. Looked at each 50 ms.
    package var idleTimeoutMilliseconds: Int?
}

/// The settings of the token endpoint.
package struct OAuthOptions: Sendable {
    /// Service accounts to accept; empty makes one for `FCMOptions.projectID`.
    package var accounts: [OAuthAccount] = []
    /// Lifetime of an access token as told to the client, and as held by FCM.
    package var expiresInSeconds: Int64 = 3599
}

/// A service account known to the token endpoint.
package struct OAuthAccount: Sendable, Hashable {
    /// The project whose messages the account may send.
    package var projectID: String
    package var clientEmail: String
    package var privateKeyID: String
    /// PKCS#8 PEM of an RSA key.
    package var privateKeyPEM: String

    /// An audience that assertions may name besides the simulator's own token endpoint.
    package var tokenURI: String?

    package init(
        projectID: String,
        clientEmail: String,
        privateKeyID: String,
        privateKeyPEM: String,
        tokenURI: String? = nil
    ) {
        self.projectID = projectID
        self.tokenURI = tokenURI
        self.clientEmail = clientEmail
        self.privateKeyID = privateKeyID
        self.privateKeyPEM = privateKeyPEM
    }
}

/// A key that may sign APNs provider tokens.
package struct APNsSigningKey: Sendable, Hashable {
    package var keyID: String
    package var teamID: String
    /// PKCS#8 PEM of a P-256 key.
    package var privateKeyPEM: String
    /// Roles that the key is valid for.
    package var environments: Set<ProviderRole>
    /// Keys of the team after which, on one connection, this one is taken too; how soon is not watched then.
    package var relatedKeyIDs: Set<String>

    package init(
        keyID: String,
        teamID: String,
        privateKeyPEM: String,
        environments: Set<ProviderRole> = [.apnsProduction, .apnsSandbox],
        relatedKeyIDs: Set<String> = []
    ) {
        self.keyID = keyID
        self.teamID = teamID
        self.privateKeyPEM = privateKeyPEM
        self.environments = environments
        self.relatedKeyIDs = relatedKeyIDs
    }
}
