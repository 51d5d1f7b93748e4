/// Which of the three queues a job's batches wait in. The raw value stands in hot tables, the name in `peal.job`.
package enum Lane: Int16, Sendable, CaseIterable, Hashable {
    /// Rings: on time or not at all.
    case call = 1
    /// A push that somebody waits for.
    case transactional = 2
    /// Everything large.
    case campaign = 3

    /// The lane's word in SQL, logs and metrics.
    package var name: String {
        switch self {
        case .call: "call"
        case .transactional: "transactional"
        case .campaign: "campaign"
        }
    }

    /// The lane that a word names; nil for any other word.
    package init?(name: some StringProtocol) {
        guard let lane = Lane.allCases.first(where: { $0.name == name }) else { return nil }
        self = lane
    }
}
