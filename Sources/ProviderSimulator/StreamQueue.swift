/// Streams in order of arrival, each with the time when its answer is due. All wait equally long, so the first in is
/// the first due: no heap, no timer per answer.
struct StreamQueue {
    private struct Entry {
        /// Monotonic milliseconds.
        let due: Int64
        let stream: UInt32
    }

    private var entries: [Entry] = []
    private var first = 0

    var isEmpty: Bool { first == entries.count }
    /// When the first one is due; nil when there is none.
    var nextDue: Int64? { isEmpty ? nil : entries[first].due }

    mutating func add(_ stream: UInt32, due: Int64 = 0) {
        // The taken half is given up when it is the larger one: each entry moves once at most.
        if first > 1024, first > entries.count / 2 {
            entries.removeFirst(first)
            first = 0
        }
        entries.append(Entry(due: due, stream: stream))
    }

    /// Takes the first stream that is due; nil when none is.
    mutating func takeFirst(dueBy now: Int64 = .max) -> UInt32? {
        guard first < entries.count, entries[first].due <= now else { return nil }
        defer {
            first += 1
            if first == entries.count {
                entries.removeAll(keepingCapacity: true)
                first = 0
            }
        }
        return entries[first].stream
    }
}
