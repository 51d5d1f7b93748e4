import HTTP2
import OpenSSL
import Postgres
import PushCore
import Telemetry

/// Serves one lane: claims batches, sends their messages, settles what comes back and writes it.
///
/// Four loops of one actor: taking in, settling and flushing, tending credentials, asking about tokens. The first three
/// share the batches in hand. The taking in reads with one connection and the flush writes with another, so that neither
/// waits for the other; what is noted of credentials and devices goes over connections that all lanes share, so that
/// nothing waits for it.
actor LaneWorker {
    let lane: Lane
    let slot: Int16
    let settings: LaneSettings
    let retryPolicy: RetryPolicy
    let logger: Logger
    let reader: KeptConnection
    let writer: KeptConnection
    /// For what is noted of credentials and devices, by all lanes.
    let notes: PostgresPool
    let store: CredentialStore
    let tokens: ProviderTokens
    let holds: ProviderHolds
    let client: HTTP2Client
    let inbox: CompletionInbox
    let flusher: Flusher
    /// Raised when there may be something to claim.
    nonisolated let intakeSignal = WakeSignal()
    nonisolated let credentialSignal = WakeSignal()
    nonisolated let questionSignal = WakeSignal()

    var pools: ConnectionPools
    var batches: [Int: BatchInHand] = [:]
    var lastNumber = 0
    var jobs: [JobID: JobInHand] = [:]
    var jobUses: [JobID: Int] = [:]
    var reasons = ReasonTable()
    var random = SystemRandomNumberGenerator()

    // Credentials.
    var bearers = CredentialMemory<Bearer>()
    var gates = CredentialMemory<CredentialGate>()
    var breakers = CredentialMemory<DeadTokenBreaker<DeadDevice>>()
    var paces = CredentialMemory<SendingPace>()
    /// When something was warned of last.
    var alerts = CredentialMemory<[Verdict.Alert: ContinuousClock.Instant]>()
    var errands: [CredentialErrand] = []
    var fetching: Set<ProviderCredential.Version> = []
    var isTendingCredentials = true
    /// Apps of which no credential opens here, and until when they are passed by.
    var unreadableApps: [AppID: ContinuousClock.Instant] = [:]

    // Dead tokens.
    var deadDevices: [DeadDevice] = []
    var tokenReports: [TokenReport] = []
    /// One task at a time has reports judged and devices disabled.
    var isFollowingDeadTokens = false
    var deadTokenFailures = 0
    var deadTokensDueAt: ContinuousClock.Instant
    var questions = TokenQuestions<DeadDevice>()
    /// While stopping: until when answers are waited for.
    var questionsEndAt: ContinuousClock.Instant?

    // Taking in.
    var floor: ClaimFloor
    var clockMovedAt: ContinuousClock.Instant?
    /// Whether the last claim may have left batches for want of room.
    var mayHaveLeft = true
    /// What the server's clock shows more than ours.
    var clockOffset: Duration = .zero
    /// Recipients that a claim that is out may permit.
    var reservedAhead = 0
    /// The streams that each pool allowed when it was last asked.
    var streams: [PoolID: Int] = [:]
    var streamsReadAt: ContinuousClock.Instant?
    /// How far each pool may be ahead by what it settled between two flushes.
    var pace: [PoolID: Int] = [:]

    // Flushing.
    /// One flush is out at a time.
    var isFlushing = false
    var pendingPlan: FlushPlan?
    var isPlanUncertain = false
    var flushFailures = 0
    var flushRetryAt: ContinuousClock.Instant?
    var flushedAt: ContinuousClock.Instant
    var unflushedCount = 0
    var controlWanted = false
    var chunks: [CompletionChunk] = []

    // Stopping.
    var stopBy: ContinuousClock.Instant?
    var isTakingIn = true
    var isClientStopped = false

    init(
        _ configuration: DeliveryConfiguration,
        lane: Lane,
        tls: TLSContext,
        notes: PostgresPool,
        store: CredentialStore,
        tokens: ProviderTokens,
        holds: ProviderHolds
    )
        throws(HTTP2Error)
    {
        self.lane = lane
        slot = configuration.slot
        settings = configuration.settings(of: lane)
        retryPolicy = configuration.retryPolicy
        let logger = configuration.logger.with([.lane: .text(lane.name)])
        self.logger = logger
        reader = KeptConnection(configuration.database)
        writer = KeptConnection(configuration.database)
        self.notes = notes
        self.store = store
        self.tokens = tokens
        self.holds = holds
        let inbox = CompletionInbox(wakeCount: settings.wakeCount)
        self.inbox = inbox
        let events = PoolEventLog(logger)
        client = try HTTP2Client(
            name: "peal-\(lane.name)",
            names: configuration.names,
            events: { events.note($0) },
            sink: { inbox.put($0) }
        )
        flusher = Flusher(lane: lane, slot: slot, lease: settings.lease)
        pools = ConnectionPools(
            client: client,
            tls: tls,
            maximumConnections: configuration.maximumConnectionsPerPool
        )
        floor = ClaimFloor(lag: settings.floorLag, sweepInterval: settings.sweepInterval)
        flushedAt = .now
        deadTokensDueAt = .now
    }

    /// Works until `stop`; returns when everything in hand was written or given back.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.takeIn() }
            group.addTask { await self.tendCredentials() }
            group.addTask { await self.askAboutTokens() }
            await settle()
            // Whoever still asks a provider about a credential or a token asks for nobody, and gets an answer now.
            await client.stop(within: .zero)
            while isTendingCredentials, let stopBy, ContinuousClock.now < stopBy {
                await inbox.signal.wait(until: stopBy)
            }
            group.cancelAll()
        }
        await reader.close()
        await writer.close()
    }

    /// There may be something to claim.
    nonisolated func wake() {
        intakeSignal.wake()
    }

    /// A job may have been cancelled or paused.
    func checkControl() {
        guard !batches.isEmpty else { return }
        controlWanted = true
        inbox.signal.wake()
    }

    /// Claims nothing more, sends nothing more, waits for what is out until the moment, writes, and gives the rest back.
    /// An earlier moment than before hurries it.
    func stop(by moment: ContinuousClock.Instant) {
        stopBy = min(stopBy ?? moment, moment)
        intakeSignal.wake()
        credentialSignal.wake()
        inbox.signal.wake()
    }

    var isStopping: Bool { stopBy != nil }

    /// Adds a batch, and its job's claim on memory.
    func adopt(_ batch: BatchInHand) {
        batches[batch.number] = batch
        jobUses[batch.row.job, default: 0] += 1
    }

    /// Forgets a batch, and its job with the last one. Completions that still come for it are ignored.
    func forget(_ batch: BatchInHand) {
        guard batches.removeValue(forKey: batch.number) != nil else { return }
        loseProbe(of: batch)
        let uses = jobUses[batch.row.job, default: 1] - 1
        jobUses[batch.row.job] = uses > 0 ? uses : nil
        if uses <= 0 { jobs[batch.row.job] = nil }
        if mayHaveLeft { intakeSignal.wake() }
    }
}

/// A device of which a provider says that its token is dead.
struct DeadDevice: Sendable {
    let app: AppID
    let device: Int64
    let token: [UInt8]
    /// Nil for now.
    let since: WallClock.Instant?
    let reason: String
    /// FCM is to refuse a minimal message too, sent with this credential, before the device is disabled.
    var toConfirmWith: ProviderCredential?
    /// How often it was locked when it was to be disabled, and when to try again.
    var lockedCount = 0
    var dueAt = ContinuousClock.now
}

/// What was seen of a credential's tokens, to be judged over all processes.
typealias TokenReport = (version: ProviderCredential.Version, report: DeadTokenBreaker<DeadDevice>.Report)

extension DeadDevice {
    /// The device of a recipient of a batch; nil where it is not known any more.
    init?(_ batch: BatchInHand, _ index: Int, since: WallClock.Instant?, reason: String) {
        guard let recipients = batch.recipients, let token = try? recipients.token(of: index) else { return nil }
        self.init(app: batch.row.app, device: recipients.ids[index], token: token, since: since, reason: reason)
    }
}

/// What has to be asked of others for a credential, outside of the settling.
enum CredentialErrand: Sendable {
    /// Get a bearer for the batches that wait for it.
    case fetch(ProviderCredential)
    /// Renew the bearer and find out whether the credential is accepted.
    case probe(ProviderCredential, isExpired: Bool)
    /// Ask the provider with a request of our own whether the credential is accepted.
    case ask(ProviderCredential)
    /// Find out with a message known to be good whether a token is why a message of the job was refused.
    case examine(DeadDevice, of: JobID, ProviderCredential)
    /// Let other processes know that its provider asked to wait.
    case hold(ProviderCredential, Duration, reason: String)
    /// Note in the database that the provider refuses it.
    case refuse(ProviderCredential, reason: String)
    /// Have what was said of tokens judged, and disable devices.
    case followDeadTokens

    /// Whether it is a word for the database, and not a question to a provider.
    var isNote: Bool {
        switch self {
        case .fetch, .probe, .ask, .examine: false
        case .hold, .refuse, .followDeadTokens: true
        }
    }
}
