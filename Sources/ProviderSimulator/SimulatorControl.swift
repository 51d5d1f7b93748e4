import Synchronization

/// Scripted behaviour, changed at any time from any thread; requests that arrive afterwards see it.
package final class SimulatorControl: Sendable {
    /// What can be changed while the simulator runs.
    package struct Script: Sendable, Hashable {
        /// Looked at in order; the first with a turn decides.
        package var rules: [Rule] = []
        /// Each answer waits that long.
        package var latencyMilliseconds = 0
        package var rateLimits: [ProviderRole: RateLimit] = [:]
        /// FCM's limits per project and device; nil: none. What was used starts anew when it changes.
        package var fcmQuota: FCMQuota?
        /// Roles whose listener accepts a connection and resets it at once.
        package var resetsNewConnections: Set<ProviderRole> = []
        /// Roles whose listener accepts a connection and never says anything.
        package var ignoresNewConnections: Set<ProviderRole> = []
        /// What is wrong with new TLS handshakes of a role.
        package var handshakeFaults: [ProviderRole: HandshakeFault] = [:]
        /// What the token endpoint answers instead of a token.
        package var oauth: OAuthFault?

        package init() {}
    }

    /// Something done at once to the open connections of a role.
    package enum Action: Sendable, Hashable {
        case goAway(GoAway)
        case settings(maxConcurrentStreams: UInt32)
        case initialWindow(UInt32)
        case drop(ConnectionCut)
        case stopReading
        case stopAnswering
    }

    struct PendingAction: Sendable, Equatable {
        let action: Action
        let role: ProviderRole?
    }

    private struct State {
        var script: Script
        /// Grows when the turns of the rules start anew.
        var epoch = 1
        var pending: [PendingAction] = []
    }

    private let state: Mutex<State>
    private let version = Atomic<Int>(1)
    private let wake: @Sendable () -> Void

    init(latencyMilliseconds: Int, wake: @escaping @Sendable () -> Void) {
        var script = Script()
        script.latencyMilliseconds = latencyMilliseconds
        state = Mutex(State(script: script))
        self.wake = wake
    }

    /// The present script.
    package var script: Script { state.withLock { $0.script } }

    /// Changes the script; the turns that rules have counted start anew.
    package func set(_ change: @Sendable (inout Script) -> Void) {
        state.withLock { state in
            change(&state.script)
            state.epoch += 1
        }
        version.add(1, ordering: .releasing)
    }

    /// Replaces all rules; turns start anew.
    package func set(rules: [Rule]) {
        set { $0.rules = rules }
    }

    /// Puts one rule before the others, which keep the turns they have counted.
    package func add(_ rule: Rule) {
        state.withLock { $0.script.rules.insert(rule, at: 0) }
        version.add(1, ordering: .releasing)
    }

    /// Back to accepting everything, without delay.
    package func reset() {
        set { $0 = Script() }
    }

    /// Does something to all open connections of a role (nil: of all roles). Returns before it has happened.
    package func perform(_ action: Action, on role: ProviderRole? = nil) {
        state.withLock { $0.pending.append(PendingAction(action: action, role: role)) }
        version.add(1, ordering: .releasing)
        wake()
    }

    /// Changes whenever `script` or the pending actions do; the loop compares it per request.
    var currentVersion: Int { version.load(ordering: .acquiring) }

    var scriptAndEpoch: (script: Script, epoch: Int) { state.withLock { ($0.script, $0.epoch) } }

    func takePendingActions() -> [PendingAction] {
        state.withLock { state in
            defer { state.pending.removeAll() }
            return state.pending
        }
    }
}

/// Faults of the token endpoint.
package enum OAuthFault: Sendable, Hashable {
    /// 400 with `error` and a description.
    case error(String, description: String)
    /// 200 with an `id_token` and no access token.
    case idTokenOnly
    /// A status with an HTML body.
    case status(Int)
    case silence
}
