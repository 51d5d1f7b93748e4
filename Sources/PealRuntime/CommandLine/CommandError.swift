/// A failure that ends a command, worded for the person who typed it.
package struct CommandError: Error, Sendable, CustomStringConvertible {
    /// The exit status that the command ends with.
    package let status: ExitStatus
    /// What happened, without a final period.
    package let what: String
    /// Where: a file and line, an option, a field. Empty when `what` says it all.
    package let location: String
    /// What to do next. Empty when there is nothing to advise.
    package let advice: String

    /// One sentence each: what happened, where, and what to do about it.
    package init(_ status: ExitStatus, _ what: String, at location: String = "", advice: String = "") {
        self.status = status
        self.what = what
        self.location = location
        self.advice = advice
    }

    /// The line for standard error, `what; where; what to do`.
    package var description: String {
        [what, location, advice].filter { !$0.isEmpty }.joined(separator: "; ")
    }
}
