internal import OpenSSL
internal import PushCore

// The connections to one endpoint and the requests that wait for them. Lives on the loop's thread.
//
// Files: this one holds connections and their growth, `Pool+Queue` the requests, `Pool+Trials` those under suspicion.
final class Pool {
    let id: PoolID
    let configuration: PoolConfiguration
    let loop: EventLoop
    let wantedFields: WantedFields
    var fields: PoolFields
    var tlsSession: TLSSession?
    private(set) var connections: [Connection] = []
    private var rotation = Int.random(in: 0..<1 << 16)

    // Requests, see Pool+Queue and Pool+Trials.
    var submissions: [Submission] = []
    let queue = Ring<Submission>()
    let returned = Ring<RequestReference>()
    let suspects = Ring<RequestReference>()
    let tried = Ring<RequestReference>()
    var queuedCount = 0

    // Connecting.
    private var failures = 0
    // Of the connections that are closed.
    private var lastAnswer = LoopTime.longAgo
    private var nextConnectAt = LoopTime.longAgo

    // Trials: when the next connection may be made for them, how many requests may be out on it, and how many of those
    // are still to be answered that were halved.
    var trialFailures = 0
    var nextTrialAt = LoopTime.longAgo
    var trialWidth = 1
    var halvedLeft = 0
    // Since when no connection could take a request; nil while one can.
    private(set) var unusableSince: LoopTime?
    private(set) var lastConnectCause = UnansweredCause.connectFailed
    private(set) var isClosing = false
    private var closeDeadline = LoopTime.never
    private var isCutOff = false

    // Time and the turn.
    var nextWake = LoopTime.never
    var queueDeadline = LoopTime.never
    var isDirty = false {
        didSet { if isDirty, !oldValue { loop.dirtyPools.append(self) } }
    }

    private var nextEjectionAt = LoopTime.longAgo
    // Often enough to be rid of a bad connection, too seldom to look like an attack (a guess).
    private static let ejectionInterval = Duration.seconds(10)

    // Since the pool was made.
    var requestsFramed = 0
    private var requestsSentAgain = 0
    private var connectionsOpened = 0
    private var connectionsFailed = 0
    private var goAways = 0
    private var lastError: String?

    init(id: PoolID, configuration: PoolConfiguration, loop: EventLoop) {
        self.id = id
        self.configuration = configuration
        self.loop = loop
        wantedFields = WantedFields(configuration.responseFields)
        fields = PoolFields(authority: configuration.authority)
        unusableSince = loop.now
    }

    func setField(_ field: PoolFields.Field) {
        fields = fields.with(field)
    }

    // MARK: The turn

    // Sends what can be sent. Each connection writes at most one record per round, so that all of them get their share.
    func pump() {
        isDirty = false
        loop.refreshWallClock()
        var hasMore = true
        while hasMore {
            hasMore = false
            for connection in connections where !connection.state.isConnecting {
                if connection.pump() { hasMore = true }
            }
        }
        considerConnecting()
        wakeForQueue()
    }

    func timerFired() {
        nextWake = .never
        if isClosing, loop.now >= closeDeadline { return cutOff() }
        if loop.now >= queueDeadline { giveUpWaiting() }
        considerConnecting()
        wakeForQueue()
        if isClosing { wake(at: closeDeadline) }
    }

    func wake(at time: LoopTime) {
        guard time < nextWake else { return }
        nextWake = time
        loop.timers.add(.pool(id), at: time)
    }

    // MARK: Growth

    // One connection at a time: the next one only when this one has come or failed.
    private func considerConnecting() {
        guard !isClosing else { return }
        considerTrial()
        guard !connections.contains(where: { $0.state.isConnecting && !$0.isTrial }) else { return }
        let active = connections.filter { $0.isRegular }
        let drainingRoom = configuration.maximumConnections * 2
        guard active.count < max(1, configuration.maximumConnections), connections.count < drainingRoom else { return }
        let isWanted = active.count < configuration.minimumConnections || hasUnsuspected && areFull(active)
        guard isWanted else { return }
        guard loop.now >= nextConnectAt else { return wake(at: nextConnectAt) }
        connect(isTrial: false)
    }

    func connect(isTrial: Bool) {
        let connection = loop.makeConnection(in: self, isTrial: isTrial)
        connections.append(connection)
        connection.start()
    }

    private func areFull(_ active: [Connection]) -> Bool {
        active.allSatisfy { $0.isFilled(to: configuration.growthThreshold) }
    }

    // More active connections than are to be kept without work.
    var hasSpareConnection: Bool {
        connections.count { $0.isRegular } > configuration.minimumConnections
    }

    func takeRotation() -> Int {
        rotation += 1
        return rotation
    }

    // MARK: What connections tell

    func connectionBecameActive(_ connection: Connection) {
        connectionsOpened += 1
        limitChanged()
        loop.report(id, .connected, "connected to \(configuration.host):\(configuration.port)")
        isDirty = true
    }

    // An answer is what ends a row of failures: a peer that only greets has helped nobody.
    func connectionAnswered() {
        failures = 0
        nextConnectAt = .longAgo
    }

    func connectionStopped(_ connection: Connection) {
        limitChanged()
        isDirty = true
    }

    func limitChanged() {
        let isUsable = connections.contains { $0.isRegular && $0.window.limit > 0 }
        if isUsable {
            unusableSince = nil
        } else if unusableSince == nil {
            unusableSince = loop.now
            lastConnectCause = connections.contains { $0.isRegular } ? .noStreamsAllowed : .connectFailed
            queueDeadline = .longAgo
        }
        isDirty = true
    }

    // Lets a connection go whose requests go wrong while another's go well. When none is well it is the peer, and new
    // connections would not help.
    func considerEjecting(_ connection: Connection) {
        guard connection.state.isActive, loop.now >= nextEjectionAt,
            connections.contains(where: { $0.state.isActive && $0.health.isWell })
        else { return }
        nextEjectionAt = loop.now + Pool.ejectionInterval
        connection.trouble = "more than half of its last requests went wrong"
        connection.retire()
    }

    func goAwayReceived(code: UInt32, message: String) {
        goAways += 1
        if code != 0 { lastError = message }
        loop.report(id, .goAway(code: code), message)
    }

    func connectionClosed(_ connection: Connection, _ reason: ConnectionStateMachine.CloseReason) {
        connections.removeAll { $0 === connection }
        lastAnswer = max(lastAnswer, connection.lastAnswer)
        let message = connection.trouble ?? "closed"
        switch reason {
        case .attemptFailed(let cause):
            connectionsFailed += 1
            lastConnectCause = cause
            lastError = message
            if !connection.isTrial { noteFailure(ofPeer: true) }
            if cause == .tlsFailed, configuration.endsAtTLSFailure { settleAllWaiting(.unanswered(cause)) }
            loop.report(
                id,
                .connectFailed(cause),
                "no connection to \(configuration.host):\(configuration.port): \(message)"
            )
        case .lost, .drainLimitPassed:
            lastError = message
            if connection.window.answers == 0, !connection.isTrial { noteFailure(ofPeer: !isAnswering) }
            loop.report(id, .lost, "connection to \(configuration.host) lost: \(message)")
        case .retired:
            // A peer that says goodbye before it has answered once is to be asked less often.
            let hasSaidOrTaken = connection.goAways > 0 || connection.requestsFramed > 0
            if connection.window.answers == 0, hasSaidOrTaken, !connection.isTrial {
                noteFailure(ofPeer: !isAnswering)
            }
            loop.report(id, .retired, "connection to \(configuration.host) closed: \(message)")
        }
        if connection.isTrial { trialEnded(connection) }
        limitChanged()
        if isClosing, connections.isEmpty { loop.remove(self) }
    }

    // Answers came lately: what a connection ended over is more likely a request than the peer.
    var isAnswering: Bool {
        let last = connections.reduce(lastAnswer) { max($0, $1.lastAnswer) }
        return last != .longAgo && last + Pool.answeringTime > loop.now
    }

    private static let answeringTime = Duration.seconds(10)

    private func noteFailure(ofPeer: Bool) {
        failures = ofPeer ? failures + 1 : 1
        nextConnectAt = loop.now + configuration.backoff.delay(afterFailures: failures)
    }

    func noteSentAgain() {
        requestsSentAgain += 1
    }

    // MARK: What callers ask

    func reportOverload() {
        for connection in connections { connection.window.overloaded() }
        limitChanged()
    }

    func renewConnections() {
        tlsSession = nil
        for connection in connections { connection.retire() }
        isDirty = true
    }

    // What waits comes back at once; what is out may finish until the limit.
    func close(within limit: Duration) {
        closeDeadline = min(closeDeadline, loop.now + limit)
        isClosing = true
        settleAllWaiting(.unanswered(.poolClosed))
        for connection in connections { connection.retire() }
        if connections.isEmpty { return loop.remove(self) }
        wake(at: closeDeadline)
    }

    private func cutOff() {
        isCutOff = true
        for connection in connections { connection.fail(.poolClosed, "the pool was closed") }
    }

    // Why requests lost their connection.
    var closeCause: UnansweredCause { isCutOff ? .poolClosed : .connectionLost }

    var status: PoolStatus {
        var status = PoolStatus()
        for connection in connections {
            if connection.state.isActive {
                status.activeConnections += 1
                status.streamsAllowed += connection.window.limit
                status.peerStreamLimits.append(connection.window.peerLimit)
            } else if connection.state.isDraining {
                status.drainingConnections += 1
            } else {
                status.connectingConnections += 1
            }
            status.streamsInFlight += connection.state.openStreams
        }
        status.queued = queuedCount
        status.connectionsOpened = connectionsOpened
        status.connectionsFailed = connectionsFailed
        status.goAways = goAways
        status.requestsSentAgain = requestsSentAgain
        status.requestsFramed = requestsFramed
        status.lastError = lastError
        return status
    }
}
