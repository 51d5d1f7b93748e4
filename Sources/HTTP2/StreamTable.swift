// One open stream: which request, how far its body is framed, what came back.
struct StreamSlot: ~Copyable {
    // Nil while the slot is free.
    var reference: RequestReference?
    var streamID: Int32 = 0
    var nextFree: Int32 = -1
    var deadline = LoopTime.never
    // The last byte of the request was given to nghttp2's output.
    var isFramed = false
    // A completion was written, or the request went back to the queue: what still comes is ignored.
    var isSettled = false
    // How many bytes the connection had framed before the request's last frame.
    var wireMark: UInt64 = 0
    var secondsLeft: UInt32 = 0
    var part: UInt32 = 0
    var partOffset: UInt32 = 0
    var status: UInt16 = 0
    var fields = ResponseFields()
    // Fields first, then the body. Keeps its room from stream to stream.
    var response: [UInt8] = []

    mutating func open(_ reference: RequestReference, body: RequestBody, deadline: LoopTime) {
        self.reference = reference
        self.deadline = deadline
        isFramed = false
        isSettled = false
        wireMark = 0
        part = body.firstPart
        partOffset = 0
        status = 0
        fields = ResponseFields()
        response.removeAll(keepingCapacity: true)
    }
}

// The streams of a connection as slots of one piece of memory; a slot's number travels through nghttp2 as an integer.
@safe
final class StreamTable {
    private var slots: UnsafeMutablePointer<StreamSlot>
    private(set) var capacity: Int
    private var firstFree: Int32 = -1

    init() {
        capacity = 16
        unsafe slots = .allocate(capacity: capacity)
        fill(from: 0)
    }

    deinit {
        unsafe slots.deinitialize(count: capacity)
        unsafe slots.deallocate()
    }

    subscript(slot: Int) -> StreamSlot {
        @inline(__always) unsafeAddress {
            unsafe UnsafePointer(slots + slot)
        }
        @inline(__always) unsafeMutableAddress {
            unsafe slots + slot
        }
    }

    func take() -> Int {
        if firstFree < 0 { grow() }
        let slot = Int(firstFree)
        firstFree = self[slot].nextFree
        return slot
    }

    func giveBack(_ slot: Int) {
        self[slot].reference = nil
        self[slot].nextFree = firstFree
        firstFree = Int32(slot)
    }

    private func grow() {
        let larger = UnsafeMutablePointer<StreamSlot>.allocate(capacity: capacity * 2)
        unsafe larger.moveInitialize(from: slots, count: capacity)
        unsafe slots.deallocate()
        unsafe slots = unsafe larger
        capacity *= 2
        fill(from: capacity / 2)
    }

    // The lowest slot is taken first, so that a quiet connection stays within little memory.
    private func fill(from start: Int) {
        for slot in (start..<capacity).reversed() {
            unsafe (slots + slot).initialize(to: StreamSlot())
            self[slot].nextFree = firstFree
            firstFree = Int32(slot)
        }
    }
}
