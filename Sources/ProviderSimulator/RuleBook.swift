/// The rules of a script with the turns they have counted. Belongs to the loop.
struct RuleBook {
    private struct Entry {
        let rule: Rule
        /// The prefix in lower case, as bytes.
        let prefix: [UInt8]?
        var turns = Turns()
        var byToken: [String: Turns] = [:]
        var byConnection: [Int: Turns] = [:]
        var firstBearer: UInt64?
    }

    private struct Turns {
        var seen = 0
        var acted = 0

        /// Counts one matching request; true when the rule acts on it.
        mutating func take(_ rule: Rule) -> Bool {
            seen += 1
            guard seen > rule.skip, (seen - rule.skip - 1).isMultiple(of: rule.every) else { return false }
            if let times = rule.times, acted >= times { return false }
            acted += 1
            return true
        }
    }

    private struct WordTurns {
        var acted = 0
        var firstBearer: UInt64 = 0
    }

    /// What the rules look at in a request.
    struct Subject {
        let role: ProviderRole
        let token: String
        let topic: ArraySlice<UInt8>?
        let connection: Int
        let bearerHash: UInt64
    }

    /// Tokens and connections counted by a rule; beyond that the counts start anew.
    private static let maximumCounted = 1_000_000

    let epoch: Int
    private var entries: [Entry] = []
    private var wordTurns: [String: WordTurns] = [:]

    var isEmpty: Bool { entries.isEmpty }

    /// A book for the rules; turns of equal rules are kept when the epoch is the same.
    init(rules: [Rule], epoch: Int, previous: RuleBook?) {
        self.epoch = epoch
        let kept = previous?.epoch == epoch ? previous : nil
        entries = rules.map { rule in
            if let old = kept?.entries.first(where: { $0.rule == rule }) { return old }
            return Entry(rule: rule, prefix: rule.tokenPrefix.map { Array($0.utf8) })
        }
        wordTurns = kept?.wordTurns ?? [:]
    }

    /// What the first rule that matches and has its turn asks for; nil when none has.
    mutating func script(for subject: Subject) -> TokenWords.Script? {
        for index in entries.indices where matches(entries[index], subject) {
            guard takeTurn(&entries[index], subject) else { continue }
            let rule = entries[index].rule
            return TokenWords.Script(
                rule.behaviour,
                delayMilliseconds: rule.delayMilliseconds,
                retryAfter: rule.retryAfter
            )
        }
        return nil
    }

    /// Whether a token word still acts on this request (words such as "first 2 times" run out).
    mutating func takeTurn(word script: TokenWords.Script, for subject: Subject) -> Bool {
        guard script.times != nil || script.untilBearerChanges else { return true }
        if wordTurns.count >= Self.maximumCounted { wordTurns.removeAll() }
        var turns = wordTurns[subject.token] ?? WordTurns(firstBearer: subject.bearerHash)
        defer { wordTurns[subject.token] = turns }
        if script.untilBearerChanges { return turns.firstBearer == subject.bearerHash }
        guard turns.acted < script.times ?? .max else { return false }
        turns.acted += 1
        return true
    }

    private func matches(_ entry: Entry, _ subject: Subject) -> Bool {
        if let role = entry.rule.role {
            guard role == subject.role else { return false }
        } else if subject.role == .oauth {
            return false
        }
        if let connection = entry.rule.connection, connection != subject.connection { return false }
        if let prefix = entry.prefix {
            guard subject.token.utf8.count >= prefix.count else { return false }
            let fold: UInt8 = subject.role.isAPNs ? 0x20 : 0
            guard zip(prefix, subject.token.utf8).allSatisfy({ $0 | fold == $1 | fold }) else { return false }
        }
        guard let topic = entry.rule.topic else { return true }
        return subject.topic?.elementsEqual(topic.utf8) ?? false
    }

    private func takeTurn(_ entry: inout Entry, _ subject: Subject) -> Bool {
        if entry.rule.untilBearerChanges {
            let first = entry.firstBearer ?? subject.bearerHash
            entry.firstBearer = first
            guard first == subject.bearerHash else { return false }
        }
        switch entry.rule.scope {
        case .all:
            return entry.turns.take(entry.rule)
        case .token:
            if entry.byToken.count >= Self.maximumCounted { entry.byToken.removeAll() }
            return entry.byToken[subject.token, default: Turns()].take(entry.rule)
        case .connection:
            if entry.byConnection.count >= Self.maximumCounted { entry.byConnection.removeAll() }
            return entry.byConnection[subject.connection, default: Turns()].take(entry.rule)
        }
    }
}

/// FNV-1a, 64 bits: names bearer tokens in the ledger without storing them.
func hash64(_ bytes: some Sequence<UInt8>) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    return hash
}

/// Sixteen hex digits.
func hexText(_ value: UInt64) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
}
