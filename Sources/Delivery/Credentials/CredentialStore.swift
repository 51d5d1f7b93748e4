import OpenSSL
import Postgres
import PushCore
import SQLText
import Telemetry

/// What an app can sign in with on a route.
enum CredentialAnswer: Sendable {
    case usable(ProviderCredential)
    /// The app has none for the route.
    case missing
    /// The provider has refused it; the reason is the provider's.
    case refused(reason: String)
    /// None of the route can be opened here: the master key is missing or another one.
    /// - isWholeApp: nor can one of the app's other routes.
    case unreadable(isWholeApp: Bool)
}

/// Reads and opens credentials, remembers them for a few seconds, and notes it when a provider refuses one.
actor CredentialStore {
    private struct Record {
        var rows: [CredentialRow]
        var readAt: ContinuousClock.Instant
    }

    private let database: PostgresPool
    private let notes: PostgresPool
    private let masterKey: SealingKey?
    /// How long a credential that was read is believed before it is read again.
    nonisolated let refresh: Duration
    private let holds: ProviderHolds
    private let logger: Logger
    private var apps: [AppID: Record] = [:]
    /// What was opened, or nil where that failed.
    private var opened: [ProviderCredential.Version: ProviderCredential?] = [:]

    /// - Parameters:
    ///   - database: what credentials are read with.
    ///   - notes: what is written of them with: a row that somebody has locked must keep nobody from reading.
    init(
        database: PostgresPool,
        notes: PostgresPool,
        masterKey: SealingKey?,
        refresh: Duration,
        holds: ProviderHolds,
        logger: Logger
    ) {
        self.database = database
        self.notes = notes
        self.masterKey = masterKey
        self.refresh = refresh
        self.holds = holds
        self.logger = logger
    }

    /// The newest active credential of an app for a route that opens; if there is none, why.
    func credential(of app: AppID, for route: Route) async throws -> CredentialAnswer {
        var all = try await rows(of: app, noOlderThan: refresh)
        if !all.contains(where: { $0.isActive && $0.serves(route) }) {
            // What is missing may just have been added: no send is refused on an old answer.
            all = try await rows(of: app, noOlderThan: .milliseconds(250))
        }
        let rows = all.filter { $0.serves(route) }
        guard rows.contains(where: \.isActive) else {
            guard let refused = rows.first else { return .missing }
            return .refused(reason: refused.stateReason ?? "credential_refused")
        }
        for row in rows where row.isActive {
            guard let credential = open(row) else { continue }
            if row.heldFor > .zero, let readAt = apps[app]?.readAt {
                // Another process was asked to wait.
                _ = holds.hold(credential.counted, until: readAt + row.heldFor, reason: row.holdReason, now: .now)
            }
            return .usable(credential)
        }
        return .unreadable(isWholeApp: !all.contains { $0.isActive && !$0.serves(route) && open($0) != nil })
    }

    /// Lets other processes know that a provider asked to wait.
    func hold(_ credential: ProviderCredential, for wait: Duration, reason: String) async throws {
        _ = try await notes.query(
            SQLText.deliveryHoldCredentials,
            [.credential(credential.id), .int64(wait.wholeMillisecondsRoundedUp), .text(reason)]
        )
    }

    /// Notes that a provider refuses a credential, unless it was changed meanwhile.
    func refuse(_ credential: ProviderCredential, reason: String) async throws {
        apps[credential.app] = nil
        let rows = try await notes.query(
            SQLText.deliveryRefuseCredential,
            [.credential(credential.id), .timestamp(credential.version.updatedAt), .text(reason)]
        )
        guard !rows.isEmpty else { return }
        logger.warning(
            "The provider refuses a credential: sends of its app end or wait until it is replaced",
            [
                .credentialID: .describing(credential.id), .appID: .describing(credential.app),
                .providerReason: .text(reason), .errorMessage: .text(credential.settingsHint),
            ]
        )
    }

    private func rows(of app: AppID, noOlderThan age: Duration) async throws -> [CredentialRow] {
        if let record = apps[app], ContinuousClock.now - record.readAt < age { return record.rows }
        let readAt = ContinuousClock.now
        let rows = try await database.query(
            SQLText.deliveryReadCredentials,
            [.int32s([app.value])]
        )
        let credentials = try rows.indices.map { try CredentialRow(rows, row: $0) }
        if apps.count > 10_000 { apps.removeAll() }
        if opened.count > 10_000 { opened.removeAll() }
        apps[app] = Record(rows: credentials, readAt: readAt)
        return credentials
    }

    /// Opens a credential once, and says once when that fails.
    private func open(_ row: CredentialRow) -> ProviderCredential? {
        if let known = opened[row.version] { return known }
        var credential: ProviderCredential?
        do {
            credential = try row.open(with: masterKey)
        } catch {
            logger.error(
                "A credential cannot be opened and is passed over: without an older one, its messages wait",
                [
                    .credentialID: .describing(row.version.id), .appID: .describing(row.app),
                    .errorMessage: .text(error.message),
                ]
            )
        }
        opened[row.version] = .some(credential)
        return credential
    }
}

extension PostgresPool {
    /// What the credential work of all lanes shares: few statements, but of several tasks at once, so that a lane whose
    /// token takes long keeps no other waiting.
    convenience init(credentials database: PostgresConfiguration, connections: Int = 2) {
        var options = PostgresPoolOptions(maximumConnections: connections)
        options.leaseDeadline = .seconds(5)
        self.init(database, options, healthPing: SQLText.healthPing)
    }
}
