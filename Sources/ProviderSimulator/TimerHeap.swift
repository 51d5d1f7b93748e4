/// What the loop has to do later, by due time: a binary heap, for thousands of delayed answers.
struct TimerHeap {
    enum Work {
        /// The answer that was decided for a stream.
        case answer(connection: Int, stream: Int32)
        /// The first of the answers that wait for the round trip on a connection.
        case roundTrip(connection: Int)
        /// The second step of a graceful GOAWAY.
        case goAway(connection: Int, GoAway)
        /// The handshake must be over by now.
        case handshakeLimit(connection: Int)
    }

    struct Entry {
        /// Monotonic milliseconds.
        let due: Int64
        /// Keeps entries of the same millisecond in order.
        let number: UInt64
        let work: Work

        func isBefore(_ other: Entry) -> Bool { (due, number) < (other.due, other.number) }
    }

    private var entries: [Entry] = []
    private var nextNumber: UInt64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var nextDue: Int64? { entries.first?.due }

    mutating func add(due: Int64, _ work: Work) {
        nextNumber += 1
        entries.append(Entry(due: due, number: nextNumber, work: work))
        var child = entries.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard entries[child].isBefore(entries[parent]) else { return }
            entries.swapAt(child, parent)
            child = parent
        }
    }

    /// Takes the first entry that is due; nil when none is.
    mutating func takeDue(now: Int64) -> Work? {
        guard let first = entries.first, first.due <= now else { return nil }
        let last = entries.removeLast()
        guard !entries.isEmpty else { return first.work }
        entries[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < entries.count {
                if entries[child].isBefore(entries[least]) { least = child }
            }
            guard least != parent else { return first.work }
            entries.swapAt(parent, least)
            parent = least
        }
    }
}
