import HTTP2
import OpenSSL
import Postgres
package import PushCore
import Synchronization
import Telemetry

/// Sends the batches of this process's lanes until it is stopped. One of it a process.
package final class DeliveryService: Sendable {
    private let workers: [LaneWorker]
    private let tokenClient: HTTP2Client
    private let credentials: PostgresPool
    private let notes: PostgresPool
    private let logger: Logger

    /// Makes the lanes' threads and clients; connects to nothing yet.
    ///
    /// - Throws: `OpenSSLError` for an unusable CA file, `HTTP2Error` when the kernel refuses threads or descriptors.
    package init(_ configuration: DeliveryConfiguration) throws {
        precondition(!configuration.lanes.isEmpty, "a delivery serves at least one lane")
        let tls = try TLSContext(trustingAlso: configuration.caFile)
        let logger = configuration.logger
        let credentials = PostgresPool(credentials: configuration.database)
        // What is noted may wait for a row that somebody has locked: it waits apart from what is read.
        let notes = PostgresPool(credentials: configuration.database, connections: 1)
        let tokenClient = try HTTP2Client(name: "peal-tokens", names: configuration.names, sink: { _ in })
        let tokens = ProviderTokens(
            database: credentials,
            masterKey: configuration.masterKey,
            client: tokenClient,
            tls: tls,
            logger: logger
        )
        let holds = ProviderHolds()
        let store = CredentialStore(
            database: credentials,
            notes: notes,
            masterKey: configuration.masterKey,
            refresh: configuration.credentialRefresh,
            holds: holds,
            logger: logger
        )
        workers = try configuration.lanes.sorted { $0.rawValue < $1.rawValue }.map {
            try LaneWorker(
                configuration,
                lane: $0,
                tls: tls,
                notes: notes,
                store: store,
                tokens: tokens,
                holds: holds
            )
        }
        self.tokenClient = tokenClient
        self.credentials = credentials
        self.notes = notes
        self.logger = logger
    }

    /// Works until `stop`; returns when everything in hand was written or given back. Never throws: trouble with the
    /// database or a provider is logged, and work goes on when it is over.
    @concurrent
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            for worker in workers {
                group.addTask { await worker.run() }
            }
        }
        await tokenClient.stop(within: .zero)
        await credentials.close()
        await notes.close()
    }

    /// There may be batches to claim in a lane: somebody published some. Cheap; may be called for each notification.
    package func wake(_ lane: Lane) {
        for worker in workers where worker.lane == lane { worker.wake() }
    }

    /// A job may have been cancelled or paused.
    package func checkControl() async {
        for worker in workers { await worker.checkControl() }
    }

    /// Claims and sends nothing more, waits so long for answers that are out, writes them, and gives back what was not
    /// sent. `run` returns when that is done. A second call with less time hurries it.
    package func stop(within limit: Duration) async {
        let moment = ContinuousClock.now + limit
        for worker in workers { await worker.stop(by: moment) }
        // A token endpoint that is silent must not hold `run` for longer than the sending.
        await tokenClient.stop(within: limit)
    }

    /// Stops without waiting for answers: what is out counts as in doubt. What was settled is still written.
    package func stopNow() async {
        await stop(within: .zero)
    }
}
