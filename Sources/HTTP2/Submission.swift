// A request that waits or is out: which submission and which index.
struct RequestReference {
    let submission: Submission
    let index: UInt32
    // How often it came back surely unprocessed.
    var rounds: UInt8 = 0
    // How many connections ended over it, up to a limit.
    var endings: UInt8 = 0
}

// One call of `submit` inside its pool. The pool lets go of it when every request is settled; streams that are still
// open hold it as well, since the rest of their bodies is read from it.
final class Submission {
    let batch: RequestBatch
    let tag: Int
    // Asked first for each completion: looking into the optional continuation costs 50 times as much.
    let isSingle: Bool
    let single: SingleAnswer?
    let timeLimitNanoseconds: Int64
    let queuedAt: LoopTime
    let expiresAt: LoopTime
    var cursor: RequestCursor
    // Requests without a completion.
    var unsettled: Int
    // Requests in the pool's queues: those of the cursor and those that came back.
    var waiting: Int
    var isCancelled = false

    init(_ submit: Submit, now: LoopTime, expiresAt: LoopTime) {
        batch = submit.batch
        tag = submit.tag
        single = submit.single
        isSingle = submit.single != nil
        timeLimitNanoseconds = submit.batch.timeLimit.wholeNanoseconds
        queuedAt = now
        self.expiresAt = expiresAt
        cursor = RequestCursor(submit.selection, count: submit.batch.count)
        unsettled = cursor.remaining
        waiting = cursor.remaining
    }
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
