/// How many recipients may be permitted ahead of what is settled in the database, over all batches that a lane has in
/// hand. Pure.
///
/// Promise 3: after a kill, what stands below a batch's `sending_to` without its bit may have been sent, and no more than
/// the streams in flight and one flush may. So the doubt of a process is what its last commits permit, less what they
/// settle. Each flush moves `sending_to` and writes the bits of all that is settled, so with
///
///     ahead(p)  = recipients of pool p that are permitted and not settled when the flush is made up,
///     streams(p) = streams that the pool's connections allow then,
///     excess    = sum over p of max(0, ahead(p) - streams(p)),
///
/// a flush never raises `excess` above `limit` but for one recipient of each pool that has nothing ahead: a pool without a
/// connection has no streams, and would get none while others hold the whole limit. The doubt is at most the sum of
/// `streams(p)` plus `limit` plus the number of pools. The limits of the lanes add up to one flush of 13,000 (`LaneSettings.aheadLimit`): what a flush interval of 250 ms settles at 50,000
/// a second. A third of it makes flushes of the size at which COPY costs twice as much a row. What a worker before us left in doubt counts as
/// permitted: it was that worker's doubt, and makes our own smaller.
///
/// A pool may use half of what the others leave of three quarters of the limit: one whose provider is silent cannot take
/// everything. The last quarter is kept for the least that any pool may have. And it uses no more than its pace, what it
/// settles between two flushes, four times: a slow send permits little more than is about to go out, a fast one doubles its
/// window with each flush, since half of it is settled then.
struct AheadBudget<Pool: Hashable> {
    private let limit: Int
    private let streams: [Pool: Int]
    private let pace: [Pool: Int]
    private var ahead: [Pool?: Int] = [:]
    private var excess = 0

    /// What a pool may have ahead of its streams however little the others leave.
    private static var least: Int { 24 }

    /// - Parameters:
    ///   - limit: what may be ahead of the streams in all.
    ///   - streams: the streams that each pool allows now; none for a pool that is not named.
    ///   - pace: how far each pool may be ahead by what it settled of late; as good as none for one that is not named.
    init(limit: Int, streams: [Pool: Int], pace: [Pool: Int]) {
        self.limit = limit
        self.streams = streams
        self.pace = pace
    }

    /// Counts recipients that are permitted; nil where their pool is not known yet.
    mutating func add(_ count: Int, to pool: Pool?) {
        excess -= excess(of: pool)
        ahead[pool, default: 0] += count
        excess += excess(of: pool)
    }

    /// How many more may be permitted to a pool.
    func room(for pool: Pool) -> Int {
        let others = excess - excess(of: pool)
        let share = max(Self.least, min((shared - others) / 2, pace[pool, default: 0]))
        let above = min(share, limit - others)
        let ahead = ahead[pool, default: 0]
        return max(ahead == 0 ? 1 : 0, streams[pool, default: 0] + above - ahead)
    }

    /// How many may be permitted to each of so many batches with the claim that takes them in hand.
    func firstWindow(ofBatches count: Int) -> Int {
        let count = max(1, count)
        let usual = max(Self.least, pace.values.reduce(0, +) / count)
        return max(0, min((shared - excess) / 2 / count, usual))
    }

    private var shared: Int { limit - limit / 4 }

    /// What is permitted to a pool beyond its streams.
    func excess(of pool: Pool?) -> Int {
        max(0, ahead[pool, default: 0] - (pool.map { streams[$0, default: 0] } ?? 0))
    }
}
