import HTTP2
import OpenSSL
import Postgres
import PushCore
import SQLText
import Telemetry

/// Keeps the bearers of credentials: made once over all processes, shared through `peal.provider_token`, renewed in time.
///
/// One request for a bearer is out per credential; whoever asks meanwhile gets the answer of that one.
actor ProviderTokens {
    private struct Record {
        var bearer: Bearer?
        /// What the provider refused last. The database holds it until there is a new one, and it is not taken from
        /// there.
        var refused: Bearer?
        var failures = 0
        var retryAt: ContinuousClock.Instant?
        var lastReason = ""
        var lastDetail = ""
        var lastIsRefusal = false
        var fetch: Task<BearerAnswer, Never>?
    }

    private let database: PostgresPool
    private let masterKey: SealingKey?
    private let client: HTTP2Client
    private let tls: TLSContext
    private let endsAtTLSFailure: Bool
    private let logger: Logger
    private let schedule: BearerSchedule
    private var records: [ProviderCredential.Version: Record] = [:]
    private var pools: [Endpoint: PoolID] = [:]
    private let backoff = Backoff(first: .seconds(2), longest: .seconds(60))

    /// The endpoint's no counts as the provider's last word after so many in a row.
    private static let refusalLimit = 3

    init(
        database: PostgresPool,
        masterKey: SealingKey?,
        client: HTTP2Client,
        tls: TLSContext,
        endsAtTLSFailure: Bool = false,
        logger: Logger,
        schedule: BearerSchedule = BearerSchedule()
    ) {
        self.database = database
        self.masterKey = masterKey
        self.client = client
        self.tls = tls
        self.endsAtTLSFailure = endsAtTLSFailure
        self.logger = logger
        self.schedule = schedule
    }

    /// The bearer to send with now. Costs nothing while it is fresh.
    func bearer(for credential: ProviderCredential) async -> BearerAnswer {
        let record = records[credential.version] ?? Record()
        let now = WallClock.now()
        if let bearer = record.bearer, schedule.isFresh(bearer, of: credential.account, now: now) {
            return .bearer(bearer)
        }
        if let retryAt = record.retryAt, ContinuousClock.now < retryAt {
            return fallback(record, until: retryAt, now: now)
        }
        return await fetch(credential, refused: nil)
    }

    /// A bearer in place of one that the provider refused. Where another process or task has renewed it already, theirs.
    ///
    /// - Parameter isExpired: the provider said that it is too old. Otherwise an APNs token is kept for 20 minutes at
    ///   least: a quicker change is an offence of its own.
    func renew(_ credential: ProviderCredential, refused: Bearer, isExpired: Bool) async -> BearerAnswer {
        let record = records[credential.version] ?? Record()
        if let bearer = record.bearer, bearer != refused, bearer.issuedAt >= refused.issuedAt { return .bearer(bearer) }
        if case .apns = credential.account, !isExpired,
            WallClock.now() - refused.issuedAt < BearerSchedule.apnsShortestAge
        {
            return .bearer(refused)
        }
        return await fetch(credential, refused: refused)
    }

    private func fallback(
        _ record: Record,
        until retryAt: ContinuousClock.Instant,
        now: WallClock.Instant
    ) -> BearerAnswer {
        if let bearer = record.bearer, now < bearer.expiresAt { return .bearer(bearer) }
        return .unavailable(
            BearerUnavailable(
                reason: record.lastReason,
                detail: record.lastDetail,
                retryAfter: max(.zero, retryAt - ContinuousClock.now),
                isRefusal: record.lastIsRefusal && record.failures >= Self.refusalLimit
            )
        )
    }

    private func fetch(_ credential: ProviderCredential, refused: Bearer?) async -> BearerAnswer {
        if let running = records[credential.version]?.fetch { return await running.value }
        let task = Task { await self.fetchAndRemember(credential, refused: refused) }
        records[credential.version, default: Record()].fetch = task
        return await task.value
    }

    private func fetchAndRemember(_ credential: ProviderCredential, refused: Bearer?) async -> BearerAnswer {
        var record = records[credential.version] ?? Record()
        defer {
            record.fetch = nil
            records[credential.version] = record
            forgetOld()
        }
        if let refused { record.refused = refused }
        do {
            let bearer = try await current(credential, refused: record.refused)
            if record.failures > 0 {
                logger.info("A bearer is there again", [.credentialID: .describing(credential.id)])
            }
            record = Record(bearer: bearer)
            logger.debug(
                "A bearer is used from now on",
                [
                    .credentialID: .describing(credential.id),
                    .durationMilliseconds: .milliseconds(bearer.expiresAt - WallClock.now()),
                ]
            )
            return .bearer(bearer)
        } catch {
            let refusal = error as? GoogleToken.Refusal
            // What the provider refused serves no longer, even if its time is not over.
            if let refused, record.bearer?.issuedAt == refused.issuedAt { record.bearer = nil }
            record.failures += 1
            record.lastReason = refusal?.reason ?? "provider_token_unavailable"
            // Settings are worth a look only where the provider found fault with them.
            record.lastDetail = refusal.map { "\($0.sentence) \(credential.settingsHint)" } ?? "\(error)"
            record.lastIsRefusal = refusal?.isFinal ?? false
            let retryAt = ContinuousClock.now + backoff.delay(afterFailures: record.failures, atLeast: .seconds(1))
            record.retryAt = retryAt
            if record.failures == 1 || record.failures == Self.refusalLimit {
                logger.warning(
                    "No bearer for a credential: nothing is sent with it until there is one",
                    [
                        .credentialID: .describing(credential.id), .appID: .describing(credential.app),
                        .providerReason: .text(record.lastReason),
                        .errorMessage: .text(record.lastDetail),
                    ]
                )
            }
            return fallback(record, until: retryAt, now: WallClock.now())
        }
    }

    /// What the database holds if it serves, else a new one, stored for all; if another process was first, theirs.
    private func current(_ credential: ProviderCredential, refused: Bearer?) async throws -> Bearer {
        let stored = try await read(credential)
        if let stored, stored.token != refused?.token,
            schedule.isFresh(stored, of: credential.account, now: WallClock.now())
        {
            return stored
        }
        let made = try await make(credential)
        guard let masterKey else { throw DeliveryError(.configuration, "No master key is set") }
        let sealed = try masterKey.seal(made.token, associated: Self.associatedData(of: credential.id))
        let rows = try await database.query(
            SQLText.deliveryStoreProviderToken,
            [
                .credential(credential.id), .bytes(sealed), .timestamp(made.issuedAt), .timestamp(made.expiresAt),
                .timestamp(stored?.issuedAt),
            ]
        )
        if !rows.isEmpty { return made }
        return try await read(credential) ?? made
    }

    private func read(_ credential: ProviderCredential) async throws -> Bearer? {
        let rows = try await database.query(SQLText.deliveryReadProviderToken, [.credential(credential.id)])
        guard !rows.isEmpty, let masterKey else { return nil }
        do {
            let token = try masterKey.open(
                try rows.bytes(0, 0),
                associated: Self.associatedData(of: credential.id)
            )
            return Bearer(
                credential.scheme,
                token: token,
                issuedAt: try rows.timestamp(0, 1),
                expiresAt: try rows.timestamp(0, 2)
            )
        } catch let error as OpenSSLError {
            // Sealed under a former master key: it is replaced, not trusted.
            logger.warning(
                "A stored bearer cannot be opened and is made anew",
                [.credentialID: .describing(credential.id), .errorMessage: .text(error.message)]
            )
            let issuedAt = try rows.timestamp(0, 1)
            return Bearer(credential.scheme, token: [], issuedAt: issuedAt, expiresAt: issuedAt)
        }
    }

    private func make(_ credential: ProviderCredential) async throws -> Bearer {
        let now = WallClock.now()
        switch credential.account {
        case .apns(let keyID, let teamID, _, _):
            let issued = WallClock.Instant(secondsSinceEpoch: now.secondsSinceEpoch)
            let token = try JSONWebToken.make(
                header: Array("{\"alg\":\"ES256\",\"kid\":\"\(keyID)\"}".utf8),
                claims: Array("{\"iss\":\"\(teamID)\",\"iat\":\(issued.secondsSinceEpoch)}".utf8),
                signedWith: credential.signingKey
            )
            return Bearer(
                credential.scheme,
                token: token,
                issuedAt: issued,
                expiresAt: issued + BearerSchedule.apnsLifetime
            )
        case .fcm(_, let clientEmail, let tokenEndpoint, let tokenURI, let keyID):
            let assertion = try GoogleToken.assertion(
                clientEmail: clientEmail,
                tokenURI: tokenURI,
                keyID: keyID,
                signingKey: credential.signingKey,
                now: now
            )
            let request = try GoogleToken.request(assertion: assertion, path: tokenEndpoint.path)
            let response = try await client.send(request, to: pool(to: tokenEndpoint))
            return try GoogleToken.read(status: response.status, body: response.body, now: now)
        }
    }

    private func pool(to endpoint: Endpoint) -> PoolID {
        if let pool = pools[endpoint] { return pool }
        var configuration = PoolConfiguration(host: endpoint.host, port: endpoint.port, tls: tls)
        configuration.maximumConnections = 1
        configuration.connectPatience = .seconds(10)
        configuration.endsAtTLSFailure = endsAtTLSFailure
        configuration.maximumBodyBytes = 16_384
        configuration.idleTimeout = .seconds(30)
        let pool = client.makePool(configuration)
        pools[endpoint] = pool
        return pool
    }

    // Versions that credentials no longer have.
    private func forgetOld() {
        guard records.count > 4_096 else { return }
        let now = WallClock.now()
        records = records.filter { $0.value.fetch != nil || ($0.value.bearer?.expiresAt ?? now) > now }
    }

    private static func associatedData(of credential: CredentialID) -> [UInt8] {
        Array("peal.provider_token/\(credential)/sealed".utf8)
    }
}
