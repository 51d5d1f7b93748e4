import HTTP2
import PushCore

/// A batch that this worker holds the lease of, and where each of its recipients stands. Confined to its lane's worker.
///
/// A recipient is in one place at a time: done (its outcome is known or it was set aside), out (submitted to the client),
/// waiting (to be submitted again), parked (until its credential is trusted again), or not submitted yet.
final class BatchInHand {
    /// The number by which completions name it; never used twice.
    let number: Int
    let row: ClaimedBatch
    let claimedAt: ContinuousClock.Instant
    /// By this machine's clock.
    let deadline: WallClock.Instant
    let doubt: DoubtPolicy

    var lifecycle = BatchLifecycle()
    /// The devices, once they were looked up; nil where the page is gone.
    var recipients: Recipients?
    /// The credential whose bearer it waits for.
    var awaited: ProviderCredential?
    var dispatch: Dispatch?
    /// Bits of recipients whose outcome is known or who were set aside, flushed or not.
    private(set) var done: Bitmap
    /// How many bits of the row are set, as far as flushes were committed. A crash of the server may undo the last ones.
    var flushedCount: Int
    /// How many bits of `done` are unset.
    private(set) var remaining: Int
    /// Messages in the client.
    var outstanding = 0
    /// Requests that will be submitted again, and when.
    var waiting: [UInt32] = []
    var waitingUntil: ContinuousClock.Instant?
    /// Requests that wait until their credential is trusted again.
    var parked: [UInt32] = []
    /// Requests whose answer refused the credential at least once, with the status of the last such answer.
    var refused: [UInt32: Int] = [:]
    /// The first request that was never submitted.
    var nextRequest = 0
    /// Recipients below it may be submitted: it was committed before.
    private(set) var permittedTo: Int
    /// What `permittedTo` becomes with the next flush.
    private(set) var wantedTo: Int
    /// Recipients below `wantedTo` that are not done.
    private(set) var ahead: Int
    /// What `ahead` was when it was last permitted, and how much less it may be before more should be.
    private var permittedAhead: Int
    private var step: Int
    /// The last flush had nothing to permit, and nothing was settled since: another one would have nothing either.
    private var isDenied = false
    var results = ResultRows()
    var delays = Delays()
    /// Results and delays since the last flush was begun.
    var hasProgress = false
    /// By this clock the lease is safely ours until then; nothing is submitted afterwards until a flush has renewed it.
    var leaseSafeUntil: ContinuousClock.Instant
    /// Nothing is submitted afterwards until a flush has said again whether its job goes on.
    var controlSafeUntil: ContinuousClock.Instant
    /// What the refusal of its credential makes of the rest.
    var failureReason: ReasonTable.Index = .none
    /// How long the rest waits when the batch is delayed as a whole.
    var restWait: Duration = .seconds(60)
    /// Nothing of it can go out before that: its expiry does not shorten this wait.
    var restMinimum: Duration = .zero
    /// What was submitted was taken back, because a flush did not come back in time.
    var isTakenBack = false

    /// How long a job is taken to go on after the database said so: a stop takes effect within a second, also while the
    /// database is silent.
    static let controlPatience: Duration = .milliseconds(900)

    /// Until when messages may go out.
    var safeUntil: ContinuousClock.Instant { min(leaseSafeUntil, controlSafeUntil) }

    /// What is needed to send.
    struct Dispatch {
        let credential: ProviderCredential
        let pool: PoolID
        let requests: RequestBatch
        /// The content says itself for which app it is: what is wrong with that is not the credential's or a token's fault.
        let hasOwnTopic: Bool
        /// The recipient of each request, as an index of the slice.
        let recipientOf: [Int32]
    }

    init(
        number: Int,
        row: ClaimedBatch,
        doubt: DoubtPolicy,
        deadline: WallClock.Instant,
        claimedAt: ContinuousClock.Instant,
        leaseSafeUntil: ContinuousClock.Instant
    ) {
        self.number = number
        self.row = row
        self.doubt = doubt
        self.deadline = deadline
        self.claimedAt = claimedAt
        self.leaseSafeUntil = leaseSafeUntil
        controlSafeUntil = claimedAt + Self.controlPatience
        done = row.done
        flushedCount = row.done.setCount
        remaining = row.size - flushedCount
        permittedTo = row.sendingTo
        wantedTo = row.sendingTo
        ahead = 0
        permittedAhead = 0
        step = 0
        done.forEachUnset(in: 0..<min(row.sendingTo, row.size)) { _ in ahead += 1 }
        permittedAhead = ahead
        step = ahead / 2
    }

    /// The status of the answer that refused the credential, of each recipient that got one.
    var refusedStatuses: [Int: Int] {
        guard let dispatch else { return [:] }
        return Dictionary(uniqueKeysWithValues: refused.map { (Int(dispatch.recipientOf[Int($0.key)]), $0.value) })
    }

    /// The device of a recipient; 0 where nobody knows any more.
    func device(of index: Int) -> Int64 {
        guard let recipients, index < recipients.count else { return 0 }
        return recipients.ids[index]
    }

    /// Marks a recipient as done; false if it was done before.
    @discardableResult
    func markDone(_ index: Int) -> Bool {
        guard done.insert(index) else { return false }
        remaining -= 1
        if index < wantedTo { ahead -= 1 }
        hasProgress = true
        isDenied = false
        return true
    }

    /// Calls `body` with each recipient that is not done, and marks it as done.
    func finishRest(_ body: (Int) -> Void) {
        guard remaining > 0 else { return }
        done.forEachUnset(body)
        done = Bitmap(count: row.size, isSet: true)
        remaining = 0
        ahead = 0
        hasProgress = true
    }

    /// Messages that are out or will be by themselves.
    var messagesInHand: Int {
        outstanding + waiting.count + parked.count + (dispatch.map { $0.recipientOf.count - nextRequest } ?? remaining)
    }

    /// Whether messages may go out: nothing stops them, the lease is ours, and their job went on a moment ago.
    func canSend(now: ContinuousClock.Instant) -> Bool {
        lifecycle.isSending && now < safeUntil
    }

    /// Whether there are requests that were never submitted.
    var hasUnsent: Bool { dispatch.map { nextRequest < $0.recipientOf.count } ?? false }

    /// The requests that may be submitted now, in order, at most so many; they count as submitted from here on.
    func takeRequests(now: ContinuousClock.Instant, atMost limit: Int = .max) -> RequestSelection? {
        guard let dispatch, canSend(now: now), limit > 0 else { return nil }
        if nextRequest == 0, waiting.isEmpty, permittedTo >= row.size, dispatch.recipientOf.count <= limit {
            nextRequest = dispatch.recipientOf.count
            outstanding = dispatch.recipientOf.count
            return .all
        }
        var requests: [UInt32] = []
        if !waiting.isEmpty, waitingUntil.map({ $0 <= now }) ?? true {
            requests = Array(waiting.prefix(limit))
            waiting.removeFirst(requests.count)
            if waiting.isEmpty { waitingUntil = nil }
        }
        while requests.count < limit, nextRequest < dispatch.recipientOf.count,
            Int(dispatch.recipientOf[nextRequest]) < permittedTo
        {
            requests.append(UInt32(nextRequest))
            nextRequest += 1
        }
        guard !requests.isEmpty else { return nil }
        outstanding += requests.count
        return .indices(requests)
    }

    /// Takes a request for a probe: one that is parked, else one that was never sent.
    /// - Parameter suspect: not this one, which may itself be what is refused.
    func takeProbe(now: ContinuousClock.Instant, otherThan suspect: UInt32?) -> UInt32? {
        guard let dispatch, canSend(now: now) else { return nil }
        if let place = parked.lastIndex(where: { $0 != suspect }) {
            outstanding += 1
            return parked.remove(at: place)
        }
        if let place = waiting.lastIndex(where: { $0 != suspect }) {
            outstanding += 1
            return waiting.remove(at: place)
        }
        guard nextRequest < dispatch.recipientOf.count, Int(dispatch.recipientOf[nextRequest]) < permittedTo else {
            return nil
        }
        nextRequest += 1
        outstanding += 1
        return UInt32(nextRequest - 1)
    }

    /// Whether it could send more than it is permitted to.
    var isLimited: Bool { lifecycle.isSending && dispatch != nil && wantedTo < row.size }

    /// Whether so much of what it was permitted to send is settled that a flush should permit more before it runs dry.
    var wantsWindow: Bool {
        isLimited && !isDenied && wantedTo == permittedTo && (ahead == 0 || permittedAhead - ahead >= step)
    }

    /// Asks the next flush for permission to send to so many more recipients. Returns how many they are.
    func widenWindow(by room: Int) -> Int {
        var left = room
        while wantedTo < row.size, left > 0 {
            if !done[wantedTo] { left -= 1 }
            wantedTo += 1
        }
        ahead += room - left
        isDenied = room == left
        return room - left
    }

    /// A flush that permits it was committed; `step` is how much is to be settled before the next one should permit more.
    func permit(to index: Int, step: Int) {
        permittedTo = max(permittedTo, index)
        permittedAhead = ahead
        self.step = step
    }

    /// Puts requests back that came back without having been sent.
    func putBack(_ request: UInt32, notBefore moment: ContinuousClock.Instant) {
        waiting.append(request)
        waitingUntil = max(waitingUntil ?? moment, moment)
    }
}
