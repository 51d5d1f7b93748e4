/// What one send attempt ended as. A provider's no is a value, never an error.
package enum Outcome: Sendable, Equatable {
    /// The provider took the message over. That is not a proof that a device showed it.
    case accepted
    /// The provider refused the message.
    case rejected(RejectionReason)
    /// The provider asks for fewer messages; `retryAfter` where it said how long to wait.
    case throttled(RejectionReason, retryAfter: Duration?)
    /// There was no answer.
    case unanswered(UnansweredCause)

    /// Why a send attempt has no answer.
    package enum UnansweredCause: String, Sendable, Equatable {
        /// Surely not processed: never written, refused stream, or above the last stream of a GOAWAY.
        case notProcessed = "not_processed"
        /// Surely not processed, and no way to the provider for now: name, address, TLS, or every connection refused it.
        case unreachable
        /// The time limit of the request passed.
        case timedOut = "timed_out"
        /// The peer reset the stream after the request was written.
        case streamReset = "stream_reset"
        /// The connection went away after the request was written.
        case connectionLost = "connection_lost"
    }
}

/// The provider's machine-readable cause, or `http_<status>` where it gave none. Texts of known reasons allocate nothing.
package struct RejectionReason: Sendable, Equatable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The text that stands in result rows: printable ASCII, at most `lengthLimit` bytes where the provider made it up.
    package let text: String

    /// How much of an unknown reason is kept.
    package static let lengthLimit = 64

    package init(stringLiteral value: String) { text = value }

    /// Takes a reason by its text.
    package init(text: String) { self.text = text }

    /// The reason of an answer that said nothing readable.
    package static func status(_ status: Int) -> RejectionReason { RejectionReason(text: "http_\(status)") }

    package var description: String { text }
}

/// What follows from an attempt.
package enum Disposition: Sendable, Equatable {
    /// The outcome is final and nothing else follows.
    case settle
    /// Final: the message itself is wrong. Never sent again unchanged; the device is left alone.
    /// `suspectsToken`: a probe with a message known to be good would tell whether the token is the cause.
    case payloadFault(suspectsToken: Bool)
    /// Final: the provider says that this token is dead. Disable the device by compare-and-set, behind the breaker.
    case deadToken(DeadToken)
    /// The same request again later.
    case retry(RetryAdvice)
    /// Surely not processed: again at once on another connection, without counting an attempt.
    case retryNow
    /// The credential's token is too old or unreadable: renew it and send once more; refused again is `credentialRefused`.
    case refreshCredential
    /// The whole credential, topic or project is refused: hold or fail the channel, touch no device.
    case credentialRefused
    /// The message may have been taken; the job's `on_doubt` decides between sending again and `unknown`.
    case doubtful
}

/// What a provider said about a token that it calls dead.
package struct DeadToken: Sendable, Equatable {
    /// How sure the word is.
    package enum Certainty: Sendable, Equatable {
        /// The provider says it of this token and nothing else can be meant.
        case stated
        /// The provider says it of this token; only a project that never worked would give the same answer.
        case whereProven
        /// A wrong environment, topic or project of ours gives the same answer: counts towards the breaker.
        case orConfiguration
        /// As before, and said in words that are no promise: only with a second refusal, of a minimal message.
        case unconfirmed
    }

    package let certainty: Certainty
    /// Milliseconds since 1970 when the provider last found it invalid; nil means now. A later registration keeps the device.
    package let invalidSinceMilliseconds: Int64?

    package init(_ certainty: Certainty, invalidSinceMilliseconds: Int64? = nil) {
        self.certainty = certainty
        self.invalidSinceMilliseconds = invalidSinceMilliseconds
    }
}

/// Which ladder a retry climbs, and the least wait that was asked for.
package struct RetryAdvice: Sendable, Equatable {
    /// What stands in the way.
    package enum Obstacle: Sendable, Equatable {
        /// The provider answered that it cannot now.
        case provider
        /// No connection; the message has not been seen.
        case connection
        /// Too many messages for this one device.
        case device
    }

    package let obstacle: Obstacle
    /// The least wait; the ladder's jitter comes on top.
    package let minimum: Duration?
    /// Attempts in all where the ladder's are too many; nil for the ladder's own limit.
    package let attemptLimit: Int?

    package init(_ obstacle: Obstacle, minimum: Duration? = nil, attemptLimit: Int? = nil) {
        self.obstacle = obstacle
        self.minimum = minimum
        self.attemptLimit = attemptLimit
    }

    /// The same advice with a wait that is no shorter than this one. Nil asks for nothing.
    package func waiting(atLeast other: Duration?) -> RetryAdvice {
        guard let other, other > minimum ?? .zero else { return self }
        return RetryAdvice(obstacle, minimum: other, attemptLimit: attemptLimit)
    }
}

/// What an attempt ended as and what follows, for the message and for its connection.
package struct Verdict: Sendable, Equatable {
    package let outcome: Outcome
    package let disposition: Disposition
    /// Whether the connection should be drained and replaced.
    package let replacesConnection: Bool
    /// What somebody has to mend, or look up, before such messages can arrive.
    package let alert: Alert?

    /// What an operator is to be told of, beside the outcome in the result row.
    package enum Alert: Sendable, Hashable {
        /// The reason is not in the provider's documentation as we know it.
        case unknownReason
        /// A status that says "gone" without the provider's own words: perhaps from a proxy.
        case goneWithoutWord
        /// No answer came in time.
        case silence
        /// FCM's own key towards Apple or a browser maker is missing or refused.
        case thirdPartyKey
    }

    package init(
        _ outcome: Outcome,
        _ disposition: Disposition,
        replacesConnection: Bool = false,
        alert: Alert? = nil
    ) {
        self.outcome = outcome
        self.disposition = disposition
        self.replacesConnection = replacesConnection
        self.alert = alert
    }

    /// The provider took the message.
    package static let accepted = Verdict(.accepted, .settle)

    /// What follows from an attempt without an answer. Whether the connection still serves is known where it broke.
    package init(unanswered cause: Outcome.UnansweredCause) {
        let disposition: Disposition =
            switch cause {
            case .notProcessed: .retryNow
            case .unreachable: .retry(RetryAdvice(.connection))
            case .timedOut, .streamReset, .connectionLost: .doubtful
            }
        self.init(.unanswered(cause), disposition)
    }
}
