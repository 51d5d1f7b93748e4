/// One exchange with the server: what it is for, how long it may take, and whether it is being stopped.
struct Exchange {
    /// Why a running statement was told to stop.
    enum Stop {
        case deadline
        case cancelled
    }

    private let verb: StaticString
    private(set) var statementName: String?
    var deadline: ContinuousClock.Instant
    var stop: Stop?
    var cancelRequest: CancelRequest?

    init(_ verb: StaticString, statementName: String? = nil, within time: Duration) {
        self.verb = verb
        self.statementName = statementName
        deadline = .now + time
    }

    /// What is being done, for errors.
    var activity: String {
        statementName.map { "\(verb) \($0)" } ?? verb.description
    }

    /// The same exchange under the name of another of its statements.
    func naming(_ statementName: String) -> Exchange {
        var copy = self
        copy.statementName = statementName
        return copy
    }

    func error(_ code: PostgresError.Code, _ message: String) -> PostgresError {
        PostgresError(code, activity: activity, message: message, statementName: statementName)
    }

    /// The error of an exchange that was stopped.
    func stopError(_ stop: Stop, cutOff: Bool) -> PostgresError {
        let end =
            cutOff ? "the server did not answer the cancellation, the connection was closed" : "it was stopped"
        return switch stop {
        case .deadline: error(.deadline, "the time allowed was over; \(end)")
        case .cancelled: error(.cancelled, "the task was cancelled; \(end)")
        }
    }
}
