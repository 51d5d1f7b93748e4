// One open stream: which request, how far its body is framed, what came back.
struct StreamSlot: ~Copyable {
    // Nil while the slot is free.
    var reference: RequestReference?
    var streamID: Int32 = 0
    // In the list of free slots, or in that of the streams whose ids fall into the same bucket.
    var next: Int32 = -1
    var deadline = LoopTime.never

    // Sending. The last byte of the request is in the output.
    var isFramed = false
    // How many bytes the connection had framed before the request's last frame.
    var wireMark: UInt64 = 0
    // How much of the body the peer allows, below zero when its SETTINGS took some back; and what is left to frame.
    var sendWindow: Int64 = 0
    var bodyLeft = 0
    var secondsLeft: UInt32 = 0
    var part: UInt32 = 0
    var partOffset: UInt32 = 0

    // Receiving. The bytes of DATA for which the window was not opened again.
    var unreturned: UInt32 = 0
    // The body's bytes that came, and those that the answer's head announced; -1 when it did not.
    var bodyBytes: Int64 = 0
    var announcedBytes: Int64 = -1
    var status: UInt16 = 0
    // Some HEADERS came, an interim answer's too: the peer has acted on the request.
    var hasAnswerBegun = false
    var fields = ResponseFields()
    // Fields first, then the body. Keeps its room from stream to stream.
    var response: [UInt8] = []

    mutating func open(_ reference: RequestReference, body: RequestBody, deadline: LoopTime, secondsLeft: UInt32) {
        self.reference = reference
        self.deadline = deadline
        self.secondsLeft = secondsLeft
        isFramed = false
        wireMark = 0
        part = body.firstPart
        partOffset = 0
        unreturned = 0
        bodyBytes = 0
        hasAnswerBegun = false
        forgetAnswer()
    }

    // An answer that was only an interim one leaves nothing behind.
    mutating func forgetAnswer() {
        announcedBytes = -1
        status = 0
        fields = ResponseFields()
        response.removeAll(keepingCapacity: true)
    }
}

// The open streams of a connection as slots of one piece of memory, found by the stream's id or gone through by number.
@safe
final class StreamTable {
    private var slots: UnsafeMutablePointer<StreamSlot>
    // The first slot of each bucket, -1 for none. Ids come in order, so nearly all buckets hold one stream.
    private var buckets: UnsafeMutablePointer<Int32>
    // A power of two.
    private(set) var capacity: Int
    private var firstFree: Int32 = -1

    init() {
        capacity = 16
        unsafe slots = .allocate(capacity: capacity)
        unsafe buckets = .allocate(capacity: capacity)
        unsafe buckets.initialize(repeating: -1, count: capacity)
        fill(from: 0)
    }

    deinit {
        unsafe slots.deinitialize(count: capacity)
        unsafe slots.deallocate()
        unsafe buckets.deallocate()
    }

    subscript(slot: Int) -> StreamSlot {
        @inline(__always) unsafeAddress {
            unsafe UnsafePointer(slots + slot)
        }
        @inline(__always) unsafeMutableAddress {
            unsafe slots + slot
        }
    }

    func slot(of stream: Int32) -> Int? {
        var slot = unsafe buckets[bucket(of: stream)]
        while slot >= 0 {
            if self[Int(slot)].streamID == stream { return Int(slot) }
            slot = self[Int(slot)].next
        }
        return nil
    }

    func take(for stream: Int32) -> Int {
        if firstFree < 0 { grow() }
        let slot = Int(firstFree)
        firstFree = self[slot].next
        self[slot].streamID = stream
        enter(slot)
        return slot
    }

    func giveBack(_ slot: Int) {
        leave(slot)
        self[slot].reference = nil
        self[slot].streamID = 0
        self[slot].next = firstFree
        firstFree = Int32(slot)
    }

    private func bucket(of stream: Int32) -> Int {
        Int(stream >> 1) & (capacity - 1)
    }

    private func enter(_ slot: Int) {
        let bucket = bucket(of: self[slot].streamID)
        self[slot].next = unsafe buckets[bucket]
        unsafe buckets[bucket] = Int32(slot)
    }

    private func leave(_ slot: Int) {
        let bucket = bucket(of: self[slot].streamID)
        let first = Int(unsafe buckets[bucket])
        if first == slot {
            unsafe buckets[bucket] = self[slot].next
            return
        }
        var before = first
        while Int(self[before].next) != slot { before = Int(self[before].next) }
        self[before].next = self[slot].next
    }

    private func grow() {
        let larger = UnsafeMutablePointer<StreamSlot>.allocate(capacity: capacity * 2)
        unsafe larger.moveInitialize(from: slots, count: capacity)
        unsafe slots.deallocate()
        unsafe slots = unsafe larger
        capacity *= 2
        unsafe buckets.deallocate()
        unsafe buckets = .allocate(capacity: capacity)
        unsafe buckets.initialize(repeating: -1, count: capacity)
        // It grows when no slot is free, so all the former ones hold streams.
        for slot in 0..<capacity / 2 { enter(slot) }
        fill(from: capacity / 2)
    }

    // The lowest slot is taken first, so that a quiet connection stays within little memory.
    private func fill(from start: Int) {
        for slot in (start..<capacity).reversed() {
            unsafe (slots + slot).initialize(to: StreamSlot())
            self[slot].next = firstFree
            firstFree = Int32(slot)
        }
    }
}
