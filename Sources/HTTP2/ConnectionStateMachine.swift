// The life of a connection, without sockets, clocks or memory.
//
//     connecting ─► handshaking ─► awaitingSettings ─► active ─► draining ─► closed
//          └──────────────┴───────────────┴───────────────┴──────────────────►┘
//
// connecting        looking up the name, opening TCP
// handshaking       TLS
// awaitingSettings  our preface is out; no request before the peer's SETTINGS, a peer may only pretend to be alive
// active            takes requests
// draining          GOAWAY, old age or a stop: takes no request ever again, waits for the answers that are out
// closed            for good; another connection takes its place
struct ConnectionStateMachine {
    enum Action: Equatable {
        case none
        case startHandshake
        case startSession
        // Tell the pool that requests can be sent.
        case announce
        // Tell the pool that no more requests can be sent.
        case stopOpening
        case close(CloseReason)
    }

    enum CloseReason: Equatable {
        // It never became active.
        case attemptFailed(UnansweredCause)
        // It ended by itself or broke, streams or not.
        case lost
        // We let it go, and all answers had come.
        case retired
        // Answers were still out when its time was over.
        case drainLimitPassed
    }

    private enum State {
        case connecting
        case handshaking
        case awaitingSettings
        case active
        case draining
        case closed
    }

    private var state = State.connecting
    private(set) var openStreams = 0

    var canOpenStreams: Bool { state == .active }
    var isActive: Bool { state == .active }
    var isDraining: Bool { state == .draining }
    var isClosed: Bool { state == .closed }
    var isConnecting: Bool { state == .connecting || state == .handshaking || state == .awaitingSettings }
    // The socket carries HTTP/2 frames.
    var hasSession: Bool { state == .awaitingSettings || state == .active || state == .draining }
    var isInTCP: Bool { state == .connecting }
    var isInTLS: Bool { state == .handshaking }

    mutating func tcpConnected() -> Action {
        guard state == .connecting else { return .none }
        state = .handshaking
        return .startHandshake
    }

    mutating func tlsFinished() -> Action {
        guard state == .handshaking else { return .none }
        state = .awaitingSettings
        return .startSession
    }

    // The first SETTINGS opens the connection; later ones only change limits.
    mutating func settingsReceived() -> Action {
        guard state == .awaitingSettings else { return .none }
        state = .active
        return .announce
    }

    mutating func goAwayReceived() -> Action {
        // A peer that says goodbye before SETTINGS never was there for us.
        if state == .awaitingSettings { return close(.attemptFailed(.connectFailed)) }
        return stopOpening()
    }

    // We want to let it go: age, idleness, renewed credentials, a closing pool.
    mutating func retire() -> Action {
        if isConnecting { return close(.retired) }
        return stopOpening()
    }

    private mutating func stopOpening() -> Action {
        guard state == .active else { return .none }
        if openStreams == 0 { return close(.retired) }
        state = .draining
        return .stopOpening
    }

    mutating func streamOpened() {
        precondition(state == .active, "a stream was opened on a connection that is \(state)")
        openStreams += 1
    }

    mutating func streamClosed() -> Action {
        precondition(openStreams > 0, "a stream was closed twice on a connection that is \(state)")
        openStreams -= 1
        return state == .draining && openStreams == 0 ? close(.retired) : .none
    }

    // The time for connecting, for TLS and SETTINGS, or for draining is over.
    mutating func phaseDeadlinePassed() -> Action {
        switch state {
        case .connecting: close(.attemptFailed(.connectFailed))
        case .handshaking, .awaitingSettings: close(.attemptFailed(.tlsFailed))
        case .draining: close(.drainLimitPassed)
        case .active, .closed: .none
        }
    }

    // The name has no address, the socket failed, TLS failed, the peer hung up or broke the protocol.
    mutating func failed(_ cause: UnansweredCause) -> Action {
        switch state {
        case .connecting, .handshaking, .awaitingSettings: close(.attemptFailed(cause))
        case .active, .draining: close(openStreams == 0 && state == .draining ? .retired : .lost)
        case .closed: .none
        }
    }

    private mutating func close(_ reason: CloseReason) -> Action {
        state = .closed
        return .close(reason)
    }
}
