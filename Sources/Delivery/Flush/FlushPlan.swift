import PushCore

/// What one flush writes: a part of each batch in hand. Once made it never changes, so that it can be tried again.
struct FlushPlan: Sendable {
    /// What becomes of a batch's row.
    enum Fate: Int16, Sendable {
        /// Ours for another lease.
        case keep = 0
        /// Anyone's at once.
        case release = 1
        /// Gone: every recipient has its outcome or waits elsewhere.
        case finish = 2
    }

    /// One batch's part.
    struct Unit: Sendable {
        /// The worker's number of the batch.
        let number: Int
        let row: ClaimedBatch
        let done: Bitmap
        /// How many bits the row must have set: those of the flush before.
        let flushedCount: Int
        let sendingTo: Int
        let hasProgress: Bool
        let fate: Fate
        let results: ResultRows
        let delays: [Delay]
    }

    let units: [Unit]
    /// Jobs whose control is asked for.
    let jobs: [JobID]
    /// The commit may be lost with the server: what it held is then sent again.
    let commitsAsynchronously: Bool
    let reasons: ReasonTable

    var resultCount: Int { units.reduce(0) { $0 + $1.results.count } }
    var hasDelays: Bool { units.contains { !$0.delays.isEmpty } }

    /// The plan without units that turned out to be written already, or to be somebody else's.
    func keeping(_ numbers: Set<Int>) -> FlushPlan {
        FlushPlan(
            units: units.filter { numbers.contains($0.number) },
            jobs: jobs,
            commitsAsynchronously: commitsAsynchronously,
            reasons: reasons
        )
    }
}

/// What a flush brought back.
struct FlushReport: Sendable {
    /// The worker's numbers of the batches whose lease was still ours. Not their ids: a worker may have claimed a batch
    /// again whose lease it lost, and has it in hand under two leases then.
    var ours: Set<Int> = []
    var controls: [JobID: JobControl] = [:]
    /// The controls were read at this moment or later.
    var controlsReadAt: ContinuousClock.Instant
}

/// Counts of outcomes by reason, for `stat_delta`. A batch has few kinds, so a search from the last hit is enough.
struct OutcomeCounts {
    struct Kind: Equatable {
        let job: JobID
        let outcome: RecipientOutcome
        let reason: ReasonTable.Index
    }

    private(set) var kinds: [Kind] = []
    private(set) var counts: [Int64] = []
    private var last = 0

    mutating func add(_ kind: Kind) {
        if last < kinds.count, kinds[last] == kind {
            counts[last] += 1
            return
        }
        if let position = kinds.firstIndex(of: kind) {
            last = position
            counts[position] += 1
            return
        }
        last = kinds.count
        kinds.append(kind)
        counts.append(1)
    }
}
