/// A failure of the client itself: never a peer's answer, which is a `Completion`.
package struct HTTP2Error: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of failure it is.
    package enum Code: Sendable, Equatable {
        /// A header field or path holds a byte that HTTP does not allow.
        case invalidField
        /// The kernel refused a descriptor or a thread.
        case systemFailed
        /// A single request got no answer; the cause says whether it may have been processed.
        case unanswered(UnansweredCause, mayHaveBeenProcessed: Bool)
        /// A single request was too late for its deadline, or was cancelled.
        case notSent
    }

    /// The kind of failure.
    package let code: Code
    /// What happened, where, and what to do next.
    package let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}
