/// One thing that the doctor looked at.
package struct DoctorFinding: Sendable, Equatable {
    /// How it stands.
    package enum Verdict: String, Sendable {
        case ok
        /// It works, but somebody should know.
        case warning
        /// Something does not work.
        case problem
    }

    package let area: String
    package let verdict: Verdict
    package let finding: String
    /// What to do; empty where there is nothing to do.
    package let advice: String

    init(_ area: String, _ verdict: Verdict, _ finding: String, advice: String = "") {
        self.area = area
        self.verdict = verdict
        self.finding = finding
        self.advice = advice
    }
}
