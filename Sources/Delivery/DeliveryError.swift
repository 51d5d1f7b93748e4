/// A failure of delivery itself. What a provider says is an `Outcome`, never an error.
package struct DeliveryError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of failure it is.
    package enum Code: Sendable, Equatable {
        /// A setting, a credential or the master key cannot be used as it is.
        case configuration
    }

    /// The kind of failure.
    package let code: Code
    /// What happened, where, and what to do next. Holds no secret.
    package let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}
