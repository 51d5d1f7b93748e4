package import HTTP2
package import OpenSSL
package import Postgres
package import PushCore
package import Telemetry

/// What delivery is given by the process that runs it.
package struct DeliveryConfiguration: Sendable {
    /// Where the database is. Each lane opens two connections; all of them share two for reading credentials and one for notes.
    package var database: PostgresConfiguration
    /// Opens sealed credentials. Without it nothing can be sent, and batches wait.
    package var masterKey: SealingKey?
    /// A PEM file of further roots that the providers' certificates may lead to (`PEAL_CA_FILE`).
    package var caFile: String?
    /// The queues to serve.
    package var lanes: Set<Lane> = Set(Lane.allCases)
    /// The share of the database to serve; 0 unless tables are spread over several servers.
    package var slot: Int16 = 0
    /// How the hosts of providers are looked up.
    package var names: NameLookUp = .system
    package var retryPolicy: RetryPolicy = .standard
    package var logger: Logger
    /// How each lane behaves; the defaults are measured or taken from the providers' advice.
    package var laneSettings: [Lane: LaneSettings] = [
        .call: .call, .transactional: .transactional, .campaign: .campaign,
    ]
    /// How long a credential that was read is believed before it is read again.
    package var credentialRefresh: Duration = .seconds(5)
    /// Connections of a pool at most.
    package var maximumConnectionsPerPool = 4

    package init(database: PostgresConfiguration, masterKey: SealingKey?, caFile: String? = nil, logger: Logger) {
        self.database = database
        self.masterKey = masterKey
        self.caFile = caFile
        self.logger = logger
    }

    func settings(of lane: Lane) -> LaneSettings { laneSettings[lane] ?? .campaign }
}

/// The limits and intervals of one lane.
package struct LaneSettings: Sendable {
    /// How long a batch is ours after a claim or flush.
    package var lease: Duration
    /// The wait between two looks at the queue when nobody wakes us; jittered by half.
    package var pollInterval: Duration
    /// Batches in hand before no more are claimed, those that are slow left aside.
    package var batchLimit: Int
    /// Batches in hand in all, slow ones included.
    package var hardBatchLimit: Int
    /// Messages of one app in hand before no more of it are claimed; of all apps twice as many.
    package var messageLimit: Int
    /// Batches of one claim at most.
    package var claimLimit: Int
    /// Recipients that may be permitted ahead of what is settled and of the streams that are open, see `AheadBudget`.
    /// Those of all lanes together are the one flush of promise 3, but for one recipient of each pool: however much the
    /// others have ahead, a pool that has nothing ahead may send one.
    package var aheadLimit: Int
    /// A flush is due so long after something was settled; a tenth of it while nothing is out.
    package var flushInterval: Duration
    /// A flush is due when so many results wait.
    package var flushCount: Int
    /// How many completions wake the settling at once; fewer wait for a moment.
    package var wakeCount: Int
    /// How often waits and leases are looked at while something is in hand.
    package var tick: Duration = .milliseconds(20)
    /// How often jobs in hand are asked for cancel and pause.
    package var controlInterval: Duration = .milliseconds(400)
    /// Every so often a claim looks below the floor, for expired leases with an old tag.
    package var sweepInterval: Duration
    /// How far the floor of the claim stays behind the lane's clock: each second of it costs a claim beside an old
    /// snapshot 0.2 µs for every batch that ended in it (measured). A batch that is committed longer after it got its tag
    /// waits for the claim that looks below the floor.
    package var floorLag: Duration
    /// How long an answer may take.
    package var requestTimeLimit: Duration
    /// How long messages wait for this machine's clock to be set right, after a provider proved it wrong.
    package var clockWait: Duration = .seconds(300)
    /// A batch that is in hand for longer is slow: its app gets no more than `slowLimit` of them.
    package var slowAfter: Duration = .seconds(3)
    package var slowLimit: Int

    package static let call = LaneSettings(
        lease: .seconds(10),
        pollInterval: .milliseconds(35),
        batchLimit: 256,
        hardBatchLimit: 2_048,
        messageLimit: 10_000,
        claimLimit: 64,
        aheadLimit: 250,
        flushInterval: .milliseconds(10),
        flushCount: 1,
        wakeCount: 1,
        sweepInterval: .seconds(5),
        floorLag: .seconds(12),
        requestTimeLimit: .seconds(10),
        slowLimit: 64
    )

    package static let transactional = LaneSettings(
        lease: .seconds(10),
        pollInterval: .milliseconds(100),
        batchLimit: 256,
        hardBatchLimit: 2_048,
        messageLimit: 20_000,
        claimLimit: 64,
        aheadLimit: 750,
        flushInterval: .milliseconds(10),
        flushCount: 1,
        wakeCount: 1,
        sweepInterval: .seconds(5),
        floorLag: .seconds(12),
        requestTimeLimit: .seconds(30),
        slowLimit: 64
    )

    package static let campaign = LaneSettings(
        lease: .seconds(30),
        pollInterval: .milliseconds(250),
        batchLimit: 8,
        hardBatchLimit: 64,
        messageLimit: 15_000,
        claimLimit: 2,
        aheadLimit: 12_000,
        flushInterval: .milliseconds(250),
        flushCount: 5_000,
        wakeCount: 512,
        sweepInterval: .seconds(10),
        floorLag: .seconds(1),
        requestTimeLimit: .seconds(30),
        slowLimit: 2
    )
}
