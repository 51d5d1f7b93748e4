internal import Glibc

// The response fields that a pool keeps, looked up without a heap object per look: this runs for every field that a
// peer sends.
@safe
final class WantedFields {
    private let bytes: PinnedBytes
    private let ranges: UnsafeMutablePointer<ByteRange>
    private let count: Int

    init(_ names: [String]) {
        let kept = names.prefix(ResponseFields.limit)
        count = kept.count
        unsafe ranges = .allocate(capacity: ResponseFields.limit)
        var content: [UInt8] = []
        for (position, name) in kept.enumerated() {
            let range = ByteRange(start: UInt32(content.count), count: UInt32(name.utf8.count))
            unsafe (ranges + position).initialize(to: range)
            content += name.utf8
        }
        bytes = PinnedBytes(content)
    }

    deinit {
        unsafe ranges.deallocate()
    }

    // The place of a field in the configuration; nil for one that is not kept.
    func position(of name: UnsafeBufferPointer<UInt8>) -> Int? {
        guard let start = name.baseAddress else { return nil }
        for position in 0..<count {
            let range = unsafe ranges[position]
            if Int(range.count) == name.count, unsafe memcmp(bytes.pointer(to: range), start, name.count) == 0 {
                return position
            }
        }
        return nil
    }
}
