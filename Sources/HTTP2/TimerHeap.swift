// Deadlines of connections and pools, the earliest first. An owner that asks again only adds an entry: an entry that
// is older than its owner's wish wakes the owner once too often, which it must bear.
struct TimerHeap {
    enum Owner: Equatable {
        case connection(UInt64)
        case pool(PoolID)
        case stop
    }

    private struct Entry {
        let time: LoopTime
        let owner: Owner
    }

    private var entries: [Entry] = []

    var count: Int { entries.count }

    var earliest: LoopTime? { entries.first?.time }

    mutating func add(_ owner: Owner, at time: LoopTime) {
        var index = entries.count
        entries.append(Entry(time: time, owner: owner))
        while index > 0 {
            let parent = (index - 1) / 2
            if entries[parent].time <= entries[index].time { break }
            entries.swapAt(parent, index)
            index = parent
        }
    }

    // The owner of the earliest entry, if that is due.
    mutating func popDue(at now: LoopTime) -> Owner? {
        guard let first = entries.first, first.time <= now else { return nil }
        let last = entries.removeLast()
        guard !entries.isEmpty else { return first.owner }
        entries[0] = last
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2] where child < entries.count {
                if entries[child].time < entries[least].time { least = child }
            }
            if least == index { return first.owner }
            entries.swapAt(least, index)
            index = least
        }
    }
}
