/// When each duty of a loop is next due. Pure: the moment is passed in.
struct Timetable<Duty: Hashable, Moment: InstantProtocol> where Moment.Duration == Duration {
    private var dueAt: [Duty: Moment] = [:]

    /// All duties are due at the start.
    init() {}

    func isDue(_ duty: Duty, at now: Moment) -> Bool {
        dueAt[duty].map { $0 <= now } ?? true
    }

    /// The duty is done and is due again after the interval.
    mutating func put(_ duty: Duty, off interval: Duration, from now: Moment) {
        dueAt[duty] = now.advanced(by: interval)
    }
}
