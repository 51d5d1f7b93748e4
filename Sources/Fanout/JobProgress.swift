/// What a freeze step left behind.
enum FreezeState: String, Sendable {
    /// The audience is final.
    case frozen
    /// There is more to read.
    case more
    /// The lease or the leave to run is gone; nothing was written.
    case lost
}

/// What a publishing step left behind.
enum PublishState: String, Sendable {
    /// Batches were made, and frozen pages are left.
    case published
    /// The window has no room; frozen pages are left.
    case full
    /// All pages so far are published, and the freeze goes on.
    case waiting
    /// The job's time is over: the scheduler ends what was not published.
    case expired
    /// All pages are published, and there will be no more.
    case done
    /// The lease or the leave to run is gone; nothing was written.
    case lost
}

/// Decides what the fan-out does next with one job that it holds: it publishes what is frozen as early as the window
/// allows, and freezes on meanwhile.
struct JobProgress: Sendable {
    /// What is to be done.
    enum Action: Sendable, Equatable {
        case freeze
        case publish
        /// Give up the lease and let the job rest: only others can make room.
        case rest
        /// Give up what may be left of the lease: the job was paused, ended or taken over.
        case giveUp
        /// All pages are published: nobody has to do with it any more.
        case letGo
    }

    private enum State {
        /// The audience grows; what is frozen is published in between. Goes to `publishing` or `over`.
        case freezing
        /// The audience is final. Goes to `over`.
        case publishing
        /// Rested or let go: the job is no longer in hand.
        case over
    }

    private var state: State

    init(isFrozen: Bool) {
        state = isFrozen ? .publishing : .freezing
    }

    /// The first thing to do.
    func begin() -> Action {
        switch state {
        case .freezing: .freeze
        case .publishing: .publish
        case .over: preconditionFailure("a job that is over was begun")
        }
    }

    mutating func froze(_ result: FreezeState) -> Action {
        guard case .freezing = state else { preconditionFailure("froze (\(result)) in the state \(state)") }
        switch result {
        case .more:
            return .publish
        case .frozen:
            state = .publishing
            return .publish
        case .lost:
            state = .over
            return .giveUp
        }
    }

    mutating func published(_ result: PublishState) -> Action {
        switch (state, result) {
        case (.over, _):
            preconditionFailure("published (\(result)) in the state \(state)")
        case (_, .lost):
            state = .over
            return .giveUp
        case (_, .done):
            state = .over
            return .letGo
        case (.freezing, .published), (.freezing, .full), (.freezing, .waiting), (.freezing, .expired):
            return .freeze
        case (.publishing, .published):
            return .publish
        case (.publishing, .full), (.publishing, .expired):
            state = .over
            return .rest
        case (.publishing, .waiting):
            // The freeze that we saw end cannot go on.
            preconditionFailure("published (\(result)) in the state \(state)")
        }
    }
}
