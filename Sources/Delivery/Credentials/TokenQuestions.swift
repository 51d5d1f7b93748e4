/// Which question about a token goes out next. Pure, and bounded: what is dropped is said again by the next push.
///
/// A credential whose provider does not answer takes half of the places at most, and only until its first question is
/// given up: the others of it are dropped then.
struct TokenQuestions<Candidate> {
    private static var limit: Int { 10_000 }
    private static var placeLimit: Int { 20 }
    private static var placeLimitOfOne: Int { 10 }

    private var waiting: [ProviderCredential.Version: [Candidate]] = [:]
    private var waitingCount = 0
    private var out: [ProviderCredential.Version: Int] = [:]
    private var outCount = 0

    /// Whether nothing waits and nothing is out.
    var isEmpty: Bool { waitingCount == 0 && outCount == 0 }

    mutating func add(_ candidate: Candidate, of version: ProviderCredential.Version) {
        guard waitingCount < Self.limit else { return }
        waiting[version, default: []].append(candidate)
        waitingCount += 1
    }

    /// Takes one of the credential that has fewest out; nil when there is none or no place. It counts as out from here on.
    mutating func next() -> Candidate? {
        let version = waiting.keys.min { out[$0, default: 0] < out[$1, default: 0] }
        guard outCount < Self.placeLimit, let version, out[version, default: 0] < Self.placeLimitOfOne,
            let candidate = waiting[version]?.popLast()
        else { return nil }
        if waiting[version]?.isEmpty ?? false { waiting[version] = nil }
        waitingCount -= 1
        out[version, default: 0] += 1
        outCount += 1
        return candidate
    }

    /// One that was out has its answer.
    mutating func answered(of version: ProviderCredential.Version) {
        guard let count = out[version] else { return }
        out[version] = count > 1 ? count - 1 : nil
        outCount -= 1
    }

    /// One that was out has got none: what waits of its credential is dropped.
    mutating func unanswered(of version: ProviderCredential.Version) {
        answered(of: version)
        waitingCount -= waiting.removeValue(forKey: version)?.count ?? 0
    }
}
