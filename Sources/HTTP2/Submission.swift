// A request that waits or is out: which submission, which index, and how often it was surely not processed.
struct RequestReference {
    let submission: Int32
    let index: UInt32
    var rounds: UInt8
}

// One call of `submit` inside its pool. Freed when every request is settled and no stream reads its bytes any more.
final class Submission {
    let batch: RequestBatch
    let tag: Int
    let single: SingleAnswer?
    let queuedAt: LoopTime
    let expiresAt: LoopTime
    var cursor: RequestCursor
    // Requests without a completion.
    var unsettled: Int
    // Requests in the pool's queues: those of the cursor and those that came back.
    var waiting: Int
    // Streams that nghttp2 may still read our bytes for.
    var pins = 0
    var isCancelled = false

    init(_ submit: Submit, now: LoopTime, expiresAt: LoopTime) {
        batch = submit.batch
        tag = submit.tag
        single = submit.single
        queuedAt = now
        self.expiresAt = expiresAt
        cursor = RequestCursor(submit.selection, count: submit.batch.count)
        unsettled = cursor.remaining
        waiting = cursor.remaining
    }

    var isOver: Bool { unsettled == 0 && pins == 0 }
}

// Walks over a selection without copying it.
struct RequestCursor {
    private let selection: RequestSelection
    private let count: Int
    private var position = 0
    private(set) var remaining: Int

    init(_ selection: RequestSelection, count: Int) {
        self.selection = selection
        self.count = count
        switch selection {
        case .all:
            remaining = count
        case .indices(let indices):
            precondition(indices.allSatisfy { $0 < count }, "an index lies beyond the batch of \(count)")
            remaining = indices.count
        case .notIn(let bitmap):
            remaining = (0..<count).count { !RequestCursor.isSet($0, in: bitmap) }
        }
    }

    mutating func next() -> UInt32? {
        guard remaining > 0 else { return nil }
        remaining -= 1
        switch selection {
        case .all:
            break
        case .indices(let indices):
            position += 1
            return indices[position - 1]
        case .notIn(let bitmap):
            while RequestCursor.isSet(position, in: bitmap) { position += 1 }
        }
        position += 1
        return UInt32(position - 1)
    }

    private static func isSet(_ index: Int, in bitmap: [UInt8]) -> Bool {
        let byte = index >> 3
        return byte < bitmap.count && bitmap[byte] >> (index & 7) & 1 == 1
    }
}

// A queue in a ring of memory that grows by doubling.
struct Ring<Element> {
    private var storage: [Element?]
    private var head = 0
    private(set) var count = 0

    init() {
        storage = Array(repeating: nil, count: 16)
    }

    var isEmpty: Bool { count == 0 }
    var first: Element? { count == 0 ? nil : storage[head] }

    mutating func append(_ element: Element) {
        if count == storage.count { grow() }
        storage[(head + count) & (storage.count - 1)] = element
        count += 1
    }

    mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = storage[head]
        storage[head] = nil
        head = (head + 1) & (storage.count - 1)
        count -= 1
        return element
    }

    // Takes all elements out, in order.
    mutating func removeAll() -> [Element] {
        var elements: [Element] = []
        elements.reserveCapacity(count)
        while let element = popFirst() { elements.append(element) }
        return elements
    }

    private mutating func grow() {
        var larger: [Element?] = Array(repeating: nil, count: storage.count * 2)
        for offset in 0..<count { larger[offset] = storage[(head + offset) & (storage.count - 1)] }
        storage = larger
        head = 0
    }
}
