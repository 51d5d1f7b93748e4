import Postgres

/// What a failed statement of the fan-out means for the job that it was about.
enum StepFailure: Sendable, Equatable {
    /// The connection or the server is in trouble: nothing about the job. Try again when it is back.
    case database
    /// The day partition for the pages is missing.
    case missingPartition
    /// The job itself cannot be frozen, now or ever (a segment is gone, a filter does not compute).
    case lasting
    /// Anything else: the job rests, others go on.
    case passing

    init(_ error: PostgresError) {
        guard error.isOfStatement else {
            self = .database
            return
        }
        switch (error.sqlState?.classCode, error.sqlState?.text) {
        case (_, "23514"?): self = .missingPartition
        case ("22"?, _), ("54"?, _): self = .lasting
        default: self = .passing
        }
    }
}
