internal import CLinux
internal import Glibc
internal import OpenSSL

// One connection of a pool: drives socket, TLS and session as its state machine says. Lives on the loop's thread.
//
// Files: this one holds the life of the connection, `Connection+Socket` TCP and TLS, `Connection+Streams` what goes
// out, `Connection+Answers` what comes back, `Connection+Deadlines` time. The codec is `Session`.
final class Connection {
    let id: UInt64
    let pool: Pool
    let loop: EventLoop
    // Carries the requests under suspicion.
    let isTrial: Bool
    var state = ConnectionStateMachine()
    var window: StreamWindow
    let streams = StreamTable()
    let output = OutputBuffer()

    // TCP and TLS.
    var descriptor: Int32 = -1
    var addresses: [SocketAddress] = []
    var addressIndex = 0
    var tls: TLSStream?
    var interest: UInt32 = 0
    // The socket is full; framing stops until it takes more.
    var isWriteBlocked = false
    // TLS wants to write before it can read on.
    var isReadBlockedByWrite = false
    // It stopped reading before the socket was empty; the loop comes back to it.
    var isUnread = false

    // HTTP/2.
    var session: Session?
    var requestsFramed = 0
    // True while received frames are handled: what they lead to happens when their session is at rest.
    var isHandlingFrames = false
    var deferredAction = ConnectionStateMachine.Action.none
    var resetsInARow = 0
    var timeoutsInARow = 0
    var lastAnswer = LoopTime.longAgo
    var health = ConnectionHealth()
    var latency: LatencyGauge
    var goAways = 0
    // What went wrong first, for the message of the end.
    var trouble: String?

    // Time, see Connection+Deadlines.
    var nextWake = LoopTime.never
    var phaseDeadline: LoopTime
    var addressDeadline = LoopTime.never
    var nextSweep = LoopTime.never
    var lastRead: LoopTime
    var busySince = LoopTime.longAgo
    var pingSentAt: LoopTime?
    var idleSince: LoopTime
    var retireAt = LoopTime.never

    init(id: UInt64, pool: Pool, loop: EventLoop, isTrial: Bool) {
        self.id = id
        self.pool = pool
        self.loop = loop
        self.isTrial = isTrial
        let configuration = pool.configuration
        window = StreamWindow(initial: configuration.initialStreams, maximum: configuration.maximumStreams)
        latency = LatencyGauge(slack: configuration.slowAnswer)
        phaseDeadline = loop.now + configuration.connectTimeout
        lastRead = loop.now
        idleSince = loop.now
    }

    // Takes any request that waits.
    var isRegular: Bool { state.isActive && !isTrial }
    // The peer has said goodbye, or it is over.
    var isEnding: Bool { goAways > 0 || state.isClosed }
    var canOpenStream: Bool { state.canOpenStreams && state.openStreams < streamLimit }
    private var streamLimit: Int { isTrial ? min(window.limit, pool.trialWidth) : window.limit }
    var freeStreams: Int { state.canOpenStreams ? max(0, window.limit - state.openStreams) : 0 }

    // Full enough that another connection is worth its handshake.
    func isFilled(to share: Double) -> Bool {
        !window.isUntried && Double(state.openStreams) >= share * Double(window.limit)
    }

    // MARK: Life

    func perform(_ action: ConnectionStateMachine.Action) {
        if action == .none { return }
        if isHandlingFrames {
            // A close outweighs whatever else was to be done.
            if case .close = deferredAction { return }
            deferredAction = action
            return
        }
        switch action {
        case .none: break
        case .startHandshake: startHandshake()
        case .startSession: startSession()
        case .announce: announce()
        case .stopOpening:
            phaseDeadline = loop.now + pool.configuration.drainLimit
            wake(at: phaseDeadline)
            pool.connectionStopped(self)
        case .close(let reason): close(reason)
        }
    }

    func fail(_ cause: UnansweredCause, _ message: String) {
        if trouble == nil { trouble = message }
        perform(state.failed(cause))
    }

    func retire() {
        perform(state.retire())
    }

    private func announce() {
        phaseDeadline = .never
        addresses = []
        if let age = pool.configuration.maximumAge {
            retireAt = loop.now + Connection.lifetime(age)
            wake(at: retireAt)
        }
        noteIdle()
        pool.connectionBecameActive(self)
    }

    // Connections made together must not all be replaced together.
    static func lifetime(_ age: Duration) -> Duration { age * Double.random(in: 0.9...1.1) }

    private func close(_ reason: ConnectionStateMachine.CloseReason) {
        if let session, reason == .retired || reason == .drainLimitPassed {
            // As far as the socket takes it: nothing waits for a peer's goodbye.
            session.appendGoAway(.none)
            writeOnce()
            tls?.shutdown()
        }
        session = nil
        giveBackStreams(reason)
        tls = nil
        closeSocket()
        pool.connectionClosed(self, reason)
        loop.forget(self)
    }

    // Every stream that is still open: what surely was not processed goes to the queue, the rest is unanswered.
    private func giveBackStreams(_ reason: ConnectionStateMachine.CloseReason) {
        for slot in 0..<streams.capacity {
            guard let reference = streams[slot].reference else { continue }
            if mayHaveBeenProcessed(slot) {
                pool.settle(reference, .unanswered(pool.closeCause), mayHaveBeenProcessed: true)
            } else {
                pool.sendAgain(reference, from: self)
            }
            streams.giveBack(slot)
        }
    }

    // True when the last byte of the request may have left the machine, or the peer did not wait for it.
    func mayHaveBeenProcessed(_ slot: Int) -> Bool {
        streams[slot].hasAnswerBegun || streams[slot].isFramed && output.writtenTotal > streams[slot].wireMark
    }
}
