import PushCore
import Synchronization

/// Until when nothing is sent to a provider for an account, because the provider asked to wait. One of it a process, for
/// all lanes; other processes learn it with the credential.
///
/// Google counts by project, whoever sends for it, and bars those who do not wait.
final class ProviderHolds: Sendable {
    /// Whom a provider counts.
    struct Account: Hashable, Sendable {
        let endpoint: Endpoint
        /// The project, or the team and key.
        let name: String
    }

    /// How long, and in the provider's words why.
    struct Hold: Sendable, Equatable {
        let until: ContinuousClock.Instant
        let reason: String
    }

    /// A longer wait than this is asked for by mistake, or will be asked for again by the next answer. It holds for the
    /// message that got the answer all the same.
    static let longest: Duration = .seconds(3_600)

    private let holds = Mutex<[Account: Hold]>([:])

    /// The hold of an account, or nil when there is none or it is over.
    func hold(of account: Account, now: ContinuousClock.Instant) -> Hold? {
        holds.withLock { $0[account].flatMap { $0.until > now ? $0 : nil } }
    }

    /// Holds an account. True if that is news: it was not held, or for less by a second and more.
    func hold(
        _ account: Account,
        until moment: ContinuousClock.Instant,
        reason: String,
        now: ContinuousClock.Instant
    ) -> Bool {
        let until = min(moment, now + Self.longest)
        guard until > now else { return false }
        return holds.withLock { holds in
            if let present = holds[account], present.until > now, present.until + .seconds(1) > until { return false }
            holds = holds.filter { $0.value.until > now }
            holds[account] = Hold(until: until, reason: reason)
            return true
        }
    }
}
