// Tells when a peer answers much more slowly than it can: the sign of overload that comes before 429 and 503.
//
// What a peer can do is the least latency of the last one to two thousand answers, so that one which has become slower
// for good is not held down for ever.
struct LatencyGauge {
    private static let epoch = 1024
    private let slackNanoseconds: Int64
    private var formerLeast = Int64.max
    private var least = Int64.max
    private var answersOfEpoch = 0
    private var smoothed: Int64 = 0

    init(slack: Duration?) {
        slackNanoseconds = slack?.wholeNanoseconds ?? .max
    }

    // True when the smoothed latency is above four times the least one and the slack.
    mutating func note(nanoseconds latency: Int64) -> Bool {
        least = min(least, latency)
        smoothed = smoothed == 0 ? latency : smoothed + (latency - smoothed) / 16
        answersOfEpoch += 1
        if answersOfEpoch == LatencyGauge.epoch {
            answersOfEpoch = 0
            formerLeast = least
            least = .max
        }
        guard slackNanoseconds != .max else { return false }
        return (smoothed - slackNanoseconds) / 4 > min(least, formerLeast)
    }
}
