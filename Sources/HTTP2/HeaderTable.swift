// The encoder's side of HPACK's dynamic table (RFC 7541): what the peer remembers of the fields that we sent. Looked
// into once a batch, not per request.
struct HeaderTable {
    private struct Entry {
        let name: [UInt8]
        let value: [UInt8]
        var size: Int { HeaderTable.size(name.count, value.count) }
    }

    enum Match: Equatable {
        case field(index: Int)
        case name(index: Int)
        case none

        var isField: Bool {
            if case .field = self { true } else { false }
        }
    }

    // The newest entry is the last one; it has index 62.
    private var entries: [Entry] = []
    private(set) var size = 0
    private(set) var limit = HeaderTable.largestSize
    // Grows with each change: what was encoded before refers to other places.
    private(set) var version = 0
    // The least limit since the last block: the peer must be told of it before it reads on.
    private var leastLimit: Int?

    // More than the default would only let the peer use more memory for us.
    static let largestSize = 4096
    private static let firstDynamicIndex = 62

    // The names of the static table that requests may have.
    private static let staticNames: [(name: StaticString, index: Int)] = [
        (":authority", 1), (":path", 4), ("accept", 19), ("accept-encoding", 16), ("accept-language", 17),
        ("authorization", 23), ("cache-control", 24), ("content-encoding", 26), ("content-length", 28),
        ("content-type", 31), ("date", 33), ("if-match", 39), ("range", 50), ("user-agent", 58),
    ]

    // How a field counts, here and in the peer's limit of a header's size.
    static func size(_ name: Int, _ value: Int) -> Int { name + value + 32 }

    func find(_ name: [UInt8], _ value: [UInt8]) -> Match {
        for (age, entry) in entries.reversed().enumerated() where entry.name == name && entry.value == value {
            return .field(index: HeaderTable.firstDynamicIndex + age)
        }
        return find(name)
    }

    // Looks for the name alone.
    func find(_ name: [UInt8]) -> Match {
        for known in HeaderTable.staticNames where known.name.description.utf8.elementsEqual(name) {
            return .name(index: known.index)
        }
        for (age, entry) in entries.reversed().enumerated() where entry.name == name {
            return .name(index: HeaderTable.firstDynamicIndex + age)
        }
        return .none
    }

    // A field that would push out most of the others is better sent each time.
    func canHold(_ name: [UInt8], _ value: [UInt8]) -> Bool {
        HeaderTable.size(name.count, value.count) * 2 <= limit
    }

    mutating func add(_ name: [UInt8], _ value: [UInt8]) {
        let entry = Entry(name: name, value: value)
        version += 1
        evict(until: limit - entry.size)
        // One that is larger than the table empties it and is not entered.
        guard entry.size <= limit else { return }
        entries.append(entry)
        size += entry.size
    }

    private mutating func evict(until allowed: Int) {
        while size > max(0, allowed), !entries.isEmpty { size -= entries.removeFirst().size }
    }

    // The peer announced how much it remembers.
    mutating func peerAllows(_ bytes: Int) {
        let wanted = min(bytes, HeaderTable.largestSize)
        guard wanted != limit else { return }
        version += 1
        leastLimit = min(leastLimit ?? wanted, wanted)
        limit = wanted
        evict(until: limit)
    }

    // The sizes that the next block must begin with.
    mutating func takeSizeUpdates() -> [Int] {
        guard let least = leastLimit else { return [] }
        leastLimit = nil
        return least < limit ? [least, limit] : [limit]
    }
}
