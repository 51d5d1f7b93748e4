/// Why a content cannot be sent: which field, and what is wrong with it. SQL's `peal.check_content` says the same words.
package struct ContentError: Error, Equatable, CustomStringConvertible {
    /// The way to the field, such as `content.actions[1].title`.
    package let path: String
    /// What is wrong, such as `must be a whole number, found text`.
    package let problem: String

    package var description: String { "\(path) \(problem)" }
}
