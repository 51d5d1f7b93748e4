/// A failure of delivery itself. What a provider says is an `Outcome`, never an error.
package struct DeliveryError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of failure it is.
    package enum Code: Sendable, Equatable {
        /// A setting, a credential or the master key cannot be used as it is.
        case configuration
        /// The provider gives no bearer for the credential now.
        case providerTokenUnavailable
        /// A row of the database is not what it should be.
        case unexpectedRow
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
