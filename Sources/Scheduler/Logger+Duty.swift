import Postgres
import Telemetry

extension Logger {
    /// Tells of a duty that rests after its statement failed, for the so-manieth time in a row.
    func dutyFailed(_ error: PostgresError, times: Int) {
        warning(
            "a duty of the scheduler failed and rests, the others go on",
            [
                .attempt: .number(times), .statementName: .text(error.statementName ?? "none"),
                .errorCode: .describing(error.code), .errorMessage: .describing(error),
            ]
        )
    }
}
