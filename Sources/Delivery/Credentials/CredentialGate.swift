/// Whether messages of a credential go out, after its provider refused one. Pure: events in, actions out.
///
/// One refusal is not believed: another message is sent with a renewed bearer over a new connection, and all others wait
/// for what becomes of it. Where there is no other message, the provider is asked with a request of our own.
struct CredentialGate: Sendable, Equatable {
    /// What to do.
    enum Action: Sendable, Equatable {
        case none
        /// Take back what is not sent, renew the bearer and the connections, and send one message as a probe.
        case probe
        /// Send what waits.
        case open
        /// The credential is refused: end or delay what waits.
        case close(reason: String)
    }

    private enum State: Sendable, Equatable {
        /// Messages go out. To `renewing`.
        case open
        /// The bearer is being renewed. To `probing`, `closed`.
        case renewing(reason: String, suspect: Probe)
        /// One message is out to find out; the others wait. To `open`, `closed`.
        case probing(reason: String, suspect: Probe, probe: Probe?)
        /// Nothing is wrong with the credential and it cannot be used now. To nothing: afterwards there is a new gate.
        case held(until: ContinuousClock.Instant)
        /// Refused twice. To nothing: another version of the credential has a gate of its own.
        case closed(reason: String)
    }

    /// The message that finds out.
    struct Probe: Sendable, Equatable {
        let batch: Int
        let request: UInt32

        /// A request of our own; batches are numbered from 1.
        static let own = Probe(batch: 0, request: 0)
    }

    private var state = State.open

    var isOpen: Bool { state == .open }
    /// The reason of a credential that is refused.
    var closedReason: String? {
        if case .closed(let reason) = state { reason } else { nil }
    }
    /// Until when nothing is sent with a credential that is not refused.
    var heldUntil: ContinuousClock.Instant? {
        if case .held(let until) = state { until } else { nil }
    }
    /// The probe that is out.
    var probe: Probe? {
        if case .probing(_, _, let probe) = state { probe } else { nil }
    }
    /// Whether a probe is wanted and none is out.
    var wantsProbe: Bool {
        if case .probing(_, _, nil) = state { true } else { false }
    }
    /// The message that was refused first: it may be the only one that is, and proves nothing.
    var suspect: Probe? {
        switch state {
        case .renewing(_, let suspect), .probing(_, let suspect, _): suspect
        case .open, .held, .closed: nil
        }
    }

    /// The provider refused the credential in its answer to a message.
    mutating func refused(_ message: Probe, reason: String) -> Action {
        switch state {
        case .open:
            state = .renewing(reason: reason, suspect: message)
            return .probe
        case .probing(_, _, let probe) where probe == message:
            state = .closed(reason: reason)
            return .close(reason: reason)
        case .renewing, .probing, .held, .closed:
            return .none
        }
    }

    /// The bearer was renewed: a probe is wanted.
    mutating func renewed() {
        guard case .renewing(let reason, let suspect) = state else { return }
        state = .probing(reason: reason, suspect: suspect, probe: nil)
    }

    /// A probe was sent.
    mutating func probing(with probe: Probe) {
        guard case .probing(let reason, let suspect, nil) = state else {
            preconditionFailure("a probe was sent while \(state)")
        }
        state = .probing(reason: reason, suspect: suspect, probe: probe)
    }

    /// A message was answered in a way that only an accepted credential is: see `Disposition.credentialVerdict`.
    mutating func answered(_ message: Probe) -> Action {
        guard case .probing(_, _, let probe) = state, probe == message else { return .none }
        state = .open
        return .open
    }

    /// The probe came back without an answer, or with one that says nothing of the credential, or its batch is gone:
    /// another one is wanted.
    mutating func probeLost(_ message: Probe) {
        guard case .probing(let reason, let suspect, let probe) = state, probe == message else { return }
        state = .probing(reason: reason, suspect: suspect, probe: nil)
    }

    /// The refusal turned out to be about something else than the credential.
    mutating func hold(until moment: ContinuousClock.Instant) {
        state = .held(until: moment)
    }

    /// There is no bearer to probe with, and the provider says that there will be none.
    mutating func close(reason: String) {
        state = .closed(reason: reason)
    }
}
