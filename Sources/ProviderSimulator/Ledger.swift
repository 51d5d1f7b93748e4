import Synchronization

/// Everything that the simulator remembers of what it received. Safe to ask from any thread while traffic runs.
package final class Ledger: Sendable {
    private struct Waiter {
        let id: Int
        let condition: @Sendable (SimulatorTotals) -> Bool
        let continuation: CheckedContinuation<Bool, Never>
        let deadline: Int64
    }

    private struct State {
        var totals = SimulatorTotals()
        var tokens: [String: TokenCount] = [:]
        var records: [RequestRecord] = []
        /// Index of the oldest record once `records` is full.
        var oldest = 0
        var connections: [Int: ConnectionRecord] = [:]
        var waiters: [Waiter] = []
        var nextWaiter = 0
        var isStopped = false
    }

    private let state = Mutex(State())
    private let depth: SimulatorOptions.LedgerDepth
    private let maximumRecords: Int
    /// Closed connections are forgotten beyond that many.
    private let maximumConnections = 10_000

    init(depth: SimulatorOptions.LedgerDepth, maximumRecords: Int) {
        self.depth = depth
        self.maximumRecords = max(1, maximumRecords)
    }

    // MARK: Questions

    /// Sums so far.
    package var totals: SimulatorTotals { state.withLock { $0.totals } }

    /// The records still held, oldest first. Copies them: O(records).
    package func requests() -> [RequestRecord] {
        state.withLock { Array($0.records[$0.oldest...] + $0.records[..<$0.oldest]) }
    }

    /// The records of one token, oldest first. O(records).
    package func requests(token: String) -> [RequestRecord] {
        requests().filter { $0.token == token }
    }

    /// The records of one role, oldest first. O(records).
    package func requests(role: ProviderRole) -> [RequestRecord] {
        requests().filter { $0.role == role }
    }

    /// Requests and acceptances of one token; zero for a token that was never seen. O(1).
    package func count(token: String) -> TokenCount {
        state.withLock { $0.tokens[token] ?? TokenCount() }
    }

    /// Requests per token, whatever the answer. Empty when the ledger keeps totals only.
    package func countsByToken() -> [String: Int] {
        state.withLock { $0.tokens.mapValues(\.requests) }
    }

    /// Accepted requests per token, without tokens that had none. Empty when the ledger keeps totals only.
    package func acceptedCountsByToken() -> [String: Int] {
        state.withLock { $0.tokens.compactMapValues { $0.accepted == 0 ? nil : $0.accepted } }
    }

    /// How many tokens were accepted how often: `[1: 998, 2: 2]` is two duplicates in a thousand.
    package func acceptedHistogram() -> [Int: Int] {
        state.withLock { state in
            var histogram: [Int: Int] = [:]
            for count in state.tokens.values where count.accepted > 0 { histogram[count.accepted, default: 0] += 1 }
            return histogram
        }
    }

    /// Connections by number, open and closed ones (the oldest closed ones are forgotten beyond 10,000).
    package func connections() -> [ConnectionRecord] {
        state.withLock { $0.connections.values.sorted { $0.number < $1.number } }
    }

    /// Forgets records, counts and totals; open connections stay.
    package func forget() {
        state.withLock { state in
            let open = state.totals.connectionsOpen
            state.totals = SimulatorTotals()
            state.totals.connectionsOpen = open
            state.tokens.removeAll()
            state.records.removeAll()
            state.oldest = 0
            state.connections = state.connections.filter { $0.value.isOpen }
        }
    }

    // MARK: Waiting

    /// Waits until the totals satisfy a condition; false when the deadline came first.
    ///
    /// The condition is looked at on the simulator's thread after each round of traffic, so no polling takes place.
    package func wait(
        upTo limit: Duration = .seconds(10),
        until condition: @escaping @Sendable (SimulatorTotals) -> Bool
    ) async -> Bool {
        let deadline =
            monotonicMilliseconds() + limit.components.seconds * 1000
            + limit.components.attoseconds / 1_000_000_000_000_000
        return await withCheckedContinuation { continuation in
            let answer: Bool? = state.withLock { state in
                if condition(state.totals) { return true }
                if state.isStopped { return false }
                state.nextWaiter += 1
                state.waiters.append(
                    Waiter(
                        id: state.nextWaiter,
                        condition: condition,
                        continuation: continuation,
                        deadline: deadline
                    )
                )
                return nil
            }
            if let answer { continuation.resume(returning: answer) }
        }
    }

    /// Waits until that many requests were accepted in all; false when the deadline came first.
    package func waitUntilAccepted(_ count: Int, upTo limit: Duration = .seconds(10)) async -> Bool {
        await wait(upTo: limit) { $0.accepted >= count }
    }

    /// Waits until that many requests were received in all; false when the deadline came first.
    package func waitUntil(_ count: Int, upTo limit: Duration = .seconds(10)) async -> Bool {
        await wait(upTo: limit) { $0.requests >= count }
    }

    // MARK: Entries, made by the loop

    /// Enters one request. The record must be complete unless the depth is `totals`.
    func enter(_ record: RequestRecord) {
        state.withLock { state in
            count(record, in: &state.totals)
            guard depth != .totals else { return }
            if !record.token.isEmpty { Self.count(record, in: &state.tokens[record.token, default: TokenCount()]) }
            guard depth == .records else { return }
            if state.records.count < maximumRecords {
                state.records.append(record)
            } else {
                state.records[state.oldest] = record
                state.oldest = (state.oldest + 1) % maximumRecords
                state.totals.recordsDropped += 1
            }
        }
    }

    /// Takes back a request that a GOAWAY excluded before it was answered: it was not processed.
    ///
    /// - Parameter record: the request as it was entered; its record now says `goaway` and no status.
    func retract(_ record: RequestRecord) {
        state.withLock { state in
            if record.isAccepted {
                state.totals.accepted -= 1
                state.tokens[record.token]?.accepted -= 1
            } else if record.status == 0 {
                state.totals.unanswered -= 1
            } else {
                state.totals.rejected -= 1
            }
            state.totals.unanswered += 1
            guard let index = state.records.lastIndex(where: { $0.number == record.number }) else { return }
            state.records[index] = record.excluded
        }
    }

    /// Counts a request without looking at it: the whole cost of the ledger in quick runs.
    func enterAccepted(role: ProviderRole, payloadBytes: Int, requests: Int) {
        state.withLock { state in
            state.totals.requests += requests
            state.totals.accepted += requests
            state.totals.payloadBytes += payloadBytes
            state.totals.requestsByRole[role.index] += requests
        }
    }

    private func count(_ record: RequestRecord, in totals: inout SimulatorTotals) {
        totals.requests += 1
        totals.payloadBytes += record.payloadBytes
        totals.requestsByRole[record.role.index] += 1
        if record.isAccepted {
            totals.accepted += 1
        } else if record.status == 0 {
            totals.unanswered += 1
        } else {
            totals.rejected += 1
        }
    }

    private static func count(_ record: RequestRecord, in count: inout TokenCount) {
        count.requests += 1
        if record.isAccepted { count.accepted += 1 }
    }

    func opened(connection number: Int, role: ProviderRole) {
        state.withLock { state in
            state.totals.connectionsOpened += 1
            state.totals.connectionsOpen += 1
            state.connections[number] = ConnectionRecord(number: number, role: role)
            guard state.connections.count > maximumConnections else { return }
            state.connections = state.connections.filter { $0.value.isOpen || $0.key > number - maximumConnections / 2 }
        }
    }

    func update(connection record: ConnectionRecord) {
        state.withLock { $0.connections[record.number] = record }
    }

    func closed(connection record: ConnectionRecord) {
        state.withLock { state in
            state.totals.connectionsOpen -= 1
            state.connections[record.number] = record
        }
    }

    func handshakeFailed() {
        state.withLock { $0.totals.handshakesFailed += 1 }
    }

    /// Wakes those whose condition holds or whose time is over. Called after each round of traffic and each 50 ms.
    func wakeWaiters(now: Int64) {
        let due: [(Waiter, Bool)] = state.withLock { state in
            guard !state.waiters.isEmpty else { return [] }
            var due: [(Waiter, Bool)] = []
            let totals = state.totals
            state.waiters.removeAll { waiter in
                let holds = waiter.condition(totals)
                guard holds || waiter.deadline <= now else { return false }
                due.append((waiter, holds))
                return true
            }
            return due
        }
        for (waiter, holds) in due { waiter.continuation.resume(returning: holds) }
    }

    /// Answers false to all who still wait.
    func stop() {
        let left = state.withLock { state in
            state.isStopped = true
            defer { state.waiters.removeAll() }
            return state.waiters
        }
        for waiter in left { waiter.continuation.resume(returning: false) }
    }
}
