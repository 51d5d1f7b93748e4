// Framed bytes on their way to TLS.
@safe
final class OutputBuffer {
    // A TLS record holds 16 KiB: gathering as much before writing costs a sixth of a write per frame (measured).
    static let target = 16 * 1024

    private var base: UnsafeMutablePointer<UInt8>
    private(set) var capacity = 2 * OutputBuffer.target + 1024
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

    // Counts so many bytes as framed and says where to write them: all of them, and before anything else is appended.
    func extend(by added: Int) -> UnsafeMutablePointer<UInt8> {
        if tail + added > capacity { makeRoom(for: added) }
        let start = unsafe base + tail
        tail += added
        framedTotal &+= UInt64(added)
        return unsafe start
    }

    func append(_ bytes: UnsafePointer<UInt8>, count added: Int) {
        unsafe extend(by: added).update(from: bytes, count: added)
    }

    func append(_ bytes: some Collection<UInt8>) {
        var place = unsafe extend(by: bytes.count)
        for byte in bytes {
            unsafe place.pointee = byte
            unsafe place += 1
        }
    }

    // MARK: Frames

    func appendFrameHeader(_ type: UInt8, flags: UInt8, stream: Int32, payloadCount: Int) {
        unsafe extend(by: FrameLimits.headerBytes).putFrameHeader(type, flags, stream, payloadCount)
    }

    func appendFrame(_ type: UInt8, flags: UInt8 = 0, stream: Int32) {
        appendFrameHeader(type, flags: flags, stream: stream, payloadCount: 0)
    }

    func appendFrame(_ type: UInt8, stream: Int32, _ number: UInt32) {
        appendFrameHeader(type, flags: 0, stream: stream, payloadCount: 4)
        unsafe extend(by: 4).put(number)
    }

    func appendFrame(_ type: UInt8, flags: UInt8 = 0, stream: Int32, _ first: UInt32, _ second: UInt32) {
        appendFrameHeader(type, flags: flags, stream: stream, payloadCount: 8)
        let place = unsafe extend(by: 8)
        unsafe place.put(first)
        unsafe (place + 4).put(second)
    }

    // MARK: Writing

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

extension UnsafeMutablePointer<UInt8> {
    // In network order; four bytes.
    func put(_ number: UInt32) {
        unsafe UnsafeMutableRawPointer(self).storeBytes(of: number.bigEndian, as: UInt32.self)
    }

    func putFrameHeader(_ type: UInt8, _ flags: UInt8, _ stream: Int32, _ payloadCount: Int) {
        unsafe put(UInt32(truncatingIfNeeded: payloadCount << 8 | Int(type)))
        unsafe self[4] = flags
        unsafe (self + 5).put(UInt32(bitPattern: stream))
    }
}
