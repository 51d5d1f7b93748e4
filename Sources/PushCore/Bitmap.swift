/// A row of bits with PostgreSQL's order for `bytea`: bit i is bit i % 8 of byte i / 8, least significant first.
package struct Bitmap: Sendable, Hashable {
    /// The bits; those of the last byte beyond `count` are zero.
    package private(set) var bytes: [UInt8]
    /// How many bits there are.
    package let count: Int

    /// Bits that are all unset, or all set.
    ///
    /// - Precondition: `count` is not negative.
    package init(count: Int, isSet: Bool = false) {
        precondition(count >= 0, "a bitmap has no negative number of bits")
        self.count = count
        bytes = [UInt8](repeating: isSet ? 0xFF : 0, count: Bitmap.byteCount(of: count))
        clearTail()
    }

    /// Takes `count` bits from bytes that were stored. Missing bytes count as zero, surplus bits are dropped.
    package init(bytes: [UInt8], count: Int) {
        self.init(count: count)
        for position in 0..<min(bytes.count, self.bytes.count) { self.bytes[position] = bytes[position] }
        clearTail()
    }

    /// How many bytes `count` bits need.
    package static func byteCount(of count: Int) -> Int { (count + 7) / 8 }

    /// Whether a bit is set.
    package subscript(index: Int) -> Bool {
        precondition(index >= 0 && index < count, "there is no such bit")
        return bytes[index >> 3] & (1 << UInt8(index & 7)) != 0
    }

    /// Sets a bit; false if it was set before.
    @discardableResult
    package mutating func insert(_ index: Int) -> Bool {
        precondition(index >= 0 && index < count, "there is no such bit")
        let mask: UInt8 = 1 << UInt8(index & 7)
        guard bytes[index >> 3] & mask == 0 else { return false }
        bytes[index >> 3] |= mask
        return true
    }

    /// Unsets a bit; false if it was not set.
    @discardableResult
    package mutating func remove(_ index: Int) -> Bool {
        precondition(index >= 0 && index < count, "there is no such bit")
        let mask: UInt8 = 1 << UInt8(index & 7)
        guard bytes[index >> 3] & mask != 0 else { return false }
        bytes[index >> 3] &= ~mask
        return true
    }

    /// How many bits are set. Looks at each byte.
    package var setCount: Int {
        var total = 0
        for byte in bytes { total += byte.nonzeroBitCount }
        return total
    }

    /// Whether all bits are set.
    package var isFull: Bool { setCount == count }

    /// Sets every bit that is set in the other, which must be as long.
    package mutating func formUnion(_ other: Bitmap) {
        precondition(count == other.count, "bitmaps of different lengths do not join")
        for position in bytes.indices { bytes[position] |= other.bytes[position] }
    }

    /// Whether every bit that is set in the other is set here too.
    package func isSuperset(of other: Bitmap) -> Bool {
        guard count == other.count else { return false }
        return bytes.indices.allSatisfy { other.bytes[$0] & ~bytes[$0] == 0 }
    }

    /// The bits of a range as a bitmap of their own, counted from 0.
    package func slice(_ range: Range<Int>) -> Bitmap {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "the range reaches beyond the bits")
        var part = Bitmap(count: range.count)
        for index in range where self[index] { part.insert(index - range.lowerBound) }
        return part
    }

    /// Calls `body` with each unset bit of a range, in order. Skips bytes that are full.
    package func forEachUnset(
        in range: Range<Int>? = nil,
        _ body: (Int) throws -> Void
    ) rethrows {
        let range = range ?? 0..<count
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "the range reaches beyond the bits")
        var index = range.lowerBound
        while index < range.upperBound {
            let byte = bytes[index >> 3]
            if byte == 0xFF {
                index = (index | 7) + 1
                continue
            }
            if byte & (1 << UInt8(index & 7)) == 0 { try body(index) }
            index += 1
        }
    }

    private mutating func clearTail() {
        guard count & 7 != 0, let last = bytes.indices.last else { return }
        bytes[last] &= (1 << UInt8(count & 7)) - 1
    }
}
