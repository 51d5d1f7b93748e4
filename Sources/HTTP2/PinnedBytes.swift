// Bytes at an address that does not change: what is framed is copied from here, without the checks that an array makes.
@safe
final class PinnedBytes: @unchecked Sendable {
    // Filled in init and never written again, so threads may read it at will.
    let base: UnsafeMutablePointer<UInt8>
    let count: Int

    init(_ bytes: [UInt8]) {
        count = bytes.count
        unsafe base = .allocate(capacity: max(1, bytes.count))
        unsafe bytes.withUnsafeBufferPointer { source in
            guard let start = source.baseAddress else { return }
            unsafe base.initialize(from: start, count: source.count)
        }
    }

    deinit {
        unsafe base.deallocate()
    }

    func pointer(to range: ByteRange) -> UnsafeMutablePointer<UInt8> {
        unsafe base + Int(range.start)
    }

    func bytes(of range: ByteRange) -> [UInt8] {
        unsafe Array(UnsafeBufferPointer(start: pointer(to: range), count: Int(range.count)))
    }
}
