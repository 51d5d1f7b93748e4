import PushCore

/// When each duty of a loop is next due. Pure: the moment is passed in.
struct Timetable<Duty: Hashable, Moment: InstantProtocol> where Moment.Duration == Duration {
    /// How long a duty that failed rests, so that it neither stops the others nor is forgotten.
    private static var backoff: Backoff { Backoff(first: .milliseconds(100), longest: .seconds(5)) }

    private var dueAt: [Duty: Moment] = [:]
    private var failures: [Duty: Int] = [:]

    /// All duties are due at the start.
    init() {}

    func isDue(_ duty: Duty, at now: Moment) -> Bool {
        dueAt[duty].map { $0 <= now } ?? true
    }

    /// The duty is done and is due again after the interval.
    mutating func put(_ duty: Duty, off interval: Duration, from now: Moment) {
        failures[duty] = nil
        dueAt[duty] = now.advanced(by: interval)
    }

    /// The duty failed and rests, longer each time in a row. Returns how often it has.
    mutating func rest(_ duty: Duty, from now: Moment) -> Int {
        let count = failures[duty, default: 0] + 1
        failures[duty] = count
        dueAt[duty] = now.advanced(by: Self.backoff.delay(afterFailures: count, atLeast: .milliseconds(20)))
        return count
    }
}
