// Framed bytes on their way to TLS.
@safe
final class OutputBuffer {
    // A TLS record holds 16 KiB: gathering as much before writing costs a sixth of a write per frame (measured).
    static let target = 16 * 1024

    private var base: UnsafeMutablePointer<UInt8>
    private var capacity = 2 * OutputBuffer.target + 1024
    private var head = 0
    private var tail = 0
    // Since the connection began: bytes framed, and bytes that TLS has taken.
    private(set) var framedTotal: UInt64 = 0
    private(set) var writtenTotal: UInt64 = 0

    init() {
        unsafe base = .allocate(capacity: capacity)
    }

    deinit {
        unsafe base.deallocate()
    }

    var count: Int { tail - head }
    var isEmpty: Bool { tail == head }

    func append(_ bytes: UnsafePointer<UInt8>, count added: Int) {
        if tail + added > capacity { makeRoom(for: added) }
        unsafe (base + tail).update(from: bytes, count: added)
        tail += added
        framedTotal += UInt64(added)
    }

    func write(_ body: (Span<UInt8>) -> Int) {
        let written = unsafe body(UnsafeBufferPointer(start: base + head, count: count).span)
        writtenTotal += UInt64(written)
        head += written
        if head == tail {
            head = 0
            tail = 0
        }
    }

    private func makeRoom(for added: Int) {
        let kept = count
        if kept + added > capacity {
            capacity = max(capacity * 2, kept + added)
            let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
            unsafe larger.update(from: base + head, count: kept)
            unsafe base.deallocate()
            unsafe base = unsafe larger
        } else {
            unsafe base.update(from: base + head, count: kept)
        }
        head = 0
        tail = kept
    }
}
