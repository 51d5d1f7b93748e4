// Header blocks that say everything in plain: a status of the static table, then literals that neither refer to a table
// nor enter one, without Huffman code. They leave the decoder's table as it is, so nghttp2's inflater need not see
// them; it copies each literal into memory of its own.
enum PlainBlock {
    // The fields of the static table that hold a status, from index 8 on.
    private static let status: [StaticString] = ["200", "204", "206", "304", "400", "404", "500"]
    private static let statusName: StaticString = ":status"

    // False, and no field handed over, when the block is of any other kind.
    static func decode(
        _ block: UnsafeBufferPointer<UInt8>,
        _ field: (_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Void
    ) -> Bool {
        guard let first = unsafe block.first, first >= 0x88, first <= 0x8E, unsafe isPlain(block) else { return false }
        unsafe field(bytes(of: statusName), bytes(of: status[Int(first) - 0x88]))
        var position = 1
        while position < block.count {
            let name = unsafe string(block, at: position + 1)
            let value = unsafe string(block, at: position + 2 + name.count)
            unsafe field(name, value)
            position += 3 + name.count + value.count
        }
        return true
    }

    // Whether all that follows the status are literals with both strings in plain and shorter than 127 bytes.
    private static func isPlain(_ block: UnsafeBufferPointer<UInt8>) -> Bool {
        let count = block.count
        var position = 1
        while position < count {
            // 0x00 begins a literal with a name of its own, 0x10 the same for a field that is never indexed.
            guard unsafe block[position] & 0xEF == 0, position + 1 < count else { return false }
            let nameCount = Int(unsafe block[position + 1])
            guard nameCount < 127, position + 2 + nameCount < count else { return false }
            let valueCount = Int(unsafe block[position + 2 + nameCount])
            guard valueCount < 127, position + 3 + nameCount + valueCount <= count else { return false }
            position += 3 + nameCount + valueCount
        }
        return true
    }

    private static func string(_ block: UnsafeBufferPointer<UInt8>, at position: Int) -> UnsafeBufferPointer<UInt8> {
        unsafe UnsafeBufferPointer(rebasing: block[position + 1..<position + 1 + Int(block[position])])
    }

    private static func bytes(of text: StaticString) -> UnsafeBufferPointer<UInt8> {
        unsafe UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }
}
