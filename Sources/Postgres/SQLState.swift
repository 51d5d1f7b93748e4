/// The five characters by which PostgreSQL names a kind of error, such as `40001`.
package struct SQLState: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    package let text: String

    package init(_ text: String) { self.text = text }
    package init(stringLiteral value: String) { text = value }

    /// The first two characters: the class of the error.
    package var classCode: String { String(text.prefix(2)) }
    package var description: String { text }

    package static let uniqueViolation: SQLState = "23505"
    package static let readOnlyTransaction: SQLState = "25006"
    package static let undefinedSchema: SQLState = "3F000"
    package static let serializationFailure: SQLState = "40001"
    package static let deadlockDetected: SQLState = "40P01"
    package static let undefinedTable: SQLState = "42P01"
    package static let tooManyConnections: SQLState = "53300"
    package static let lockNotAvailable: SQLState = "55P03"
    package static let queryCanceled: SQLState = "57014"
    package static let adminShutdown: SQLState = "57P01"
}
