/// What went wrong between us and PostgreSQL. Its text names what was being done and what to do next, never a value.
///
/// `message`, `detail` and `hint` are the server's own words and may quote data: show them to the user who sent that
/// data, and log `description` instead.
package struct PostgresError: Error, Sendable {
    /// The kind of failure: an open set.
    package struct Code: Hashable, Sendable, CustomStringConvertible {
        private let name: String
        /// The server's code, for errors that the server reported.
        package let sqlState: SQLState?

        private init(_ name: String, _ sqlState: SQLState? = nil) {
            self.name = name
            self.sqlState = sqlState
        }

        /// No connection could be made, or it broke.
        package static let connection = Code("connection")
        /// The time allowed was over. The statement was cancelled or, if the server stayed silent, cut off.
        package static let deadline = Code("deadline")
        /// The task that asked was cancelled, and the statement with it.
        package static let cancelled = Code("cancelled")
        /// The connection broke after COMMIT was sent: whether it took effect is not known.
        package static let commitUncertain = Code("commitUncertain")
        /// The transaction had failed before its end, so that COMMIT rolled it back.
        package static let transactionAborted = Code("transactionAborted")
        /// A value was not of the type that the reader expected, or null.
        package static let decoding = Code("decoding")
        /// The connection, pool or cluster was used in a way that it does not allow.
        package static let misuse = Code("misuse")
        /// The configuration cannot be read or does not fit.
        package static let configuration = Code("configuration")
        /// No connection of the pool became free in time, or too many were waiting already.
        package static let poolExhausted = Code("poolExhausted")
        /// The pool, connection or listener was closed.
        package static let closed = Code("closed")
        /// The schema of the database does not fit this binary.
        package static let schema = Code("schema")
        /// A private PostgreSQL server could not be made, started or stopped.
        package static let cluster = Code("cluster")

        /// The server refused, with this SQLSTATE.
        package static func server(_ sqlState: SQLState) -> Code { Code("server", sqlState) }

        package var description: String {
            sqlState.map { "\(name) \($0)" } ?? name
        }
    }

    package let code: Code
    /// What was being done, such as `run delivery_claim_batches`.
    package let activity: String
    /// The message of the server or of libpq, or our own.
    package let message: String
    /// The server's detail: may hold data.
    package let detail: String?
    /// The server's hint.
    package let hint: String?
    /// The constraint that was violated.
    package let constraint: String?
    /// The name of the statement.
    package let statementName: String?

    package init(
        _ code: Code,
        activity: String,
        message: String,
        detail: String? = nil,
        hint: String? = nil,
        constraint: String? = nil,
        statementName: String? = nil
    ) {
        self.code = code
        self.activity = activity
        self.message = message
        self.detail = detail
        self.hint = hint
        self.constraint = constraint
        self.statementName = statementName
    }

    /// The server's code, for errors that the server reported.
    package var sqlState: SQLState? { code.sqlState }
}

extension PostgresError: CustomStringConvertible {
    package var description: String {
        var text = "PostgreSQL: could not \(activity) (\(code)): \(messageWithoutData)"
        if let constraint { text += " [constraint \(constraint)]" }
        if let advice { text += ". \(advice)" }
        return text
    }

    /// Data exceptions (class 22) quote the offending value in double quotes: it is left out.
    private var messageWithoutData: String {
        guard sqlState?.classCode == "22" else { return message }
        var parts = message.split(separator: "\"", omittingEmptySubsequences: false)
        for position in parts.indices where position % 2 == 1 { parts[position] = "…" }
        return parts.joined(separator: "\"")
    }
}
