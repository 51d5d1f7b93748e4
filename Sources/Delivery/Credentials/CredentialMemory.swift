/// What was learned of credentials, by credential. It may be trimmed: what was not learned about for longest goes first,
/// and nothing of what still matters.
struct CredentialMemory<Value> {
    private struct Entry {
        var value: Value
        /// When it was last changed, by the count of changes.
        var changedAt: UInt64
    }

    private var entries: [ProviderCredential.Version: Entry] = [:]
    private var changes: UInt64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }
    /// The versions of which something is known, in no order.
    var versions: [ProviderCredential.Version] { Array(entries.keys) }

    /// What is known of a credential. Setting it is a change.
    subscript(version: ProviderCredential.Version) -> Value? {
        get { entries[version]?.value }
        set {
            changes += 1
            entries[version] = newValue.map { Entry(value: $0, changedAt: changes) }
        }
    }

    /// What is known of a credential, or what is known of a new one. Changes it in place.
    subscript(version: ProviderCredential.Version, default initial: @autoclosure () -> Value) -> Value {
        get { entries[version]?.value ?? initial() }
        _modify {
            changes += 1
            entries[version, default: Entry(value: initial(), changedAt: changes)].changedAt = changes
            yield &entries[version, default: Entry(value: initial(), changedAt: changes)].value
        }
    }

    /// Keeps only what passes.
    mutating func keep(where matters: (ProviderCredential.Version, Value) -> Bool) {
        entries = entries.filter { matters($0.key, $0.value.value) }
    }

    /// Forgets down to the limit, the oldest change first.
    /// - Parameter matters: what is kept even so. There are never many of it: it is in hand, or it went wrong just now.
    mutating func trim(to limit: Int, keeping matters: (ProviderCredential.Version, Value) -> Bool) {
        guard entries.count > limit else { return }
        let idle = entries.filter { !matters($0.key, $0.value.value) }.sorted {
            $0.value.changedAt < $1.value.changedAt
        }
        for (version, _) in idle.prefix(entries.count - limit) { entries[version] = nil }
    }
}
