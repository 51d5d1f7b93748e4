// Cuts received bytes into frames. A frame lies where it was read; only one that spans two reads is copied.
@safe
final class FrameReader {
    // What is left of the present read.
    private var rest = unsafe UnsafeBufferPointer<UInt8>(start: nil, count: 0)
    // The beginning of a frame whose end has not come: room for one frame.
    private let partial: UnsafeMutablePointer<UInt8>
    private var partialCount = 0
    private var isPartialTaken = false

    init() {
        unsafe partial = .allocate(capacity: FrameLimits.headerBytes + FrameLimits.payloadBytes)
    }

    deinit {
        unsafe partial.deallocate()
    }

    // Begins with the bytes of a read; they must stay until `next` has returned nil.
    func begin(_ bytes: UnsafeBufferPointer<UInt8>) {
        unsafe rest = bytes
    }

    // The next whole frame; nil when the rest of the read has been put aside.
    func next() throws(ProtocolFault) -> Frame? {
        if partialCount > 0 {
            guard isPartialTaken else { return try completePartial() }
            partialCount = 0
            isPartialTaken = false
        }
        guard let start = unsafe rest.baseAddress, unsafe rest.count >= FrameLimits.headerBytes else {
            return putAside()
        }
        let size = unsafe try FrameReader.size(start)
        guard unsafe rest.count >= size else { return putAside() }
        unsafe rest = UnsafeBufferPointer(start: start + size, count: rest.count - size)
        return unsafe FrameReader.frame(start, size)
    }

    private func putAside() -> Frame? {
        _ = take(upTo: unsafe rest.count)
        return nil
    }

    private func completePartial() throws(ProtocolFault) -> Frame? {
        guard take(upTo: FrameLimits.headerBytes) else { return nil }
        let size = unsafe try FrameReader.size(partial)
        guard take(upTo: size) else { return nil }
        isPartialTaken = true
        return unsafe FrameReader.frame(partial, size)
    }

    // Fills the partial frame up to a size; false when the read ends before.
    private func take(upTo size: Int) -> Bool {
        let missing = size - partialCount
        let taken = min(missing, unsafe rest.count)
        guard taken > 0, let start = unsafe rest.baseAddress else { return missing <= 0 }
        unsafe (partial + partialCount).update(from: start, count: taken)
        partialCount += taken
        unsafe rest = UnsafeBufferPointer(start: start + taken, count: rest.count - taken)
        return taken == missing
    }

    // Header and payload together.
    private static func size(_ bytes: UnsafePointer<UInt8>) throws(ProtocolFault) -> Int {
        let count = unsafe Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        guard count <= FrameLimits.payloadBytes else {
            throw ProtocolFault(.frameSize, "a frame is larger than the 16384 bytes that we allow")
        }
        return FrameLimits.headerBytes + count
    }

    private static func frame(_ bytes: UnsafePointer<UInt8>, _ size: Int) -> Frame {
        let id = unsafe UnsafeRawPointer(bytes).loadUnaligned(fromByteOffset: 5, as: UInt32.self)
        return unsafe Frame(
            type: bytes[3],
            flags: bytes[4],
            stream: Int32(bitPattern: UInt32(bigEndian: id) & 0x7FFF_FFFF),
            payload: UnsafeBufferPointer(
                start: bytes + FrameLimits.headerBytes,
                count: size - FrameLimits.headerBytes
            )
        )
    }
}
