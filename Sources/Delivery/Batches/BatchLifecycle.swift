import PushCore

/// What may befall a batch in hand. Pure: events in, actions out.
struct BatchLifecycle: Sendable, Equatable {
    /// Why a batch is no longer sent. A stronger reason replaces a weaker one.
    enum Withdrawal: Int, Sendable, Comparable {
        /// We stop: what was not sent goes back to the queue.
        case released
        /// The credential is refused or has no bearer; the rest waits.
        case delayed
        /// The job is paused; the rest waits for its resumption.
        case held
        /// The credential is refused and the app lets the send fail.
        case failed
        /// The job is cancelled.
        case cancelled
        /// The lease was lost: the batch is another worker's, and nothing of it may be written.
        case lost

        static func < (left: Withdrawal, right: Withdrawal) -> Bool { left.rawValue < right.rawValue }
    }

    /// What to do.
    enum Action: Sendable, Equatable {
        case none
        /// Take back what was submitted and is not framed yet.
        case takeBack
        /// Every recipient has its outcome or waits elsewhere: the next flush ends the batch.
        case finish
        /// The recipients that are left get an end that follows from the reason, then the batch ends.
        case endRest(Withdrawal)
        /// Forget the batch.
        case drop
    }

    private enum State: Equatable {
        /// Messages go out. To `withdrawing`, `ending`, `over`.
        case sending
        /// Messages that are out are awaited, no new ones go out. To `ending`, `over`, or a stronger reason.
        case withdrawing(Withdrawal)
        /// Everything is settled and waits for the flush that ends it. To `over`.
        case ending(Withdrawal?)
        /// Ended in the database, or lost. To nothing.
        case over
    }

    private var state = State.sending

    /// Whether messages may go out.
    var isSending: Bool { state == .sending }
    /// Whether it is over: nothing is to be written any more.
    var isOver: Bool { state == .over }
    /// Why it was withdrawn, if it was.
    var withdrawal: Withdrawal? {
        switch state {
        case .withdrawing(let reason): reason
        case .ending(let reason): reason
        case .sending, .over: nil
        }
    }
    /// Whether the next flush ends it.
    var isEnding: Bool {
        if case .ending = state { true } else { false }
    }

    /// Something came up that stops the sending.
    mutating func withdraw(_ reason: Withdrawal) -> Action {
        switch state {
        case .over: return .none
        case .ending where reason != .lost: return .none
        case .withdrawing(let present) where present >= reason: return .none
        case .sending, .withdrawing, .ending:
            if reason == .lost {
                state = .over
                return .drop
            }
            let wasSending = state == .sending
            state = .withdrawing(reason)
            return wasSending ? .takeBack : .none
        }
    }

    /// No message is out and none will go out by itself.
    /// - Parameter remaining: recipients without an outcome that do not wait elsewhere.
    mutating func nothingIsOut(remaining: Int) -> Action {
        switch state {
        case .over, .ending: return .none
        case .sending:
            guard remaining == 0 else { return .none }
            state = .ending(nil)
            return .finish
        case .withdrawing(let reason):
            state = .ending(reason)
            return remaining == 0 ? .finish : .endRest(reason)
        }
    }

    /// The flush that ends it was committed.
    mutating func flushed() {
        guard isEnding else { return }
        state = .over
    }
}
