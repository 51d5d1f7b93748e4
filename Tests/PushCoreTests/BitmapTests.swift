import PushCore
import Testing

@Suite struct BitmapTests {
    @Test func `bits stand in PostgreSQL's order`() {
        var bitmap = Bitmap(count: 12)
        bitmap.insert(0)
        bitmap.insert(9)
        #expect(bitmap.bytes == [0b0000_0001, 0b0000_0010])
    }

    @Test func `inserting and removing say whether something changed`() {
        var bitmap = Bitmap(count: 3)
        let inserted = [bitmap.insert(2), bitmap.insert(2)]
        #expect(inserted == [true, false])
        #expect(bitmap[2])
        let removed = [bitmap.remove(2), bitmap.remove(2)]
        #expect(removed == [true, false])
    }

    @Test(arguments: [0, 1, 7, 8, 9, 5000])
    func `a full bitmap counts its bits and no more`(count: Int) {
        let bitmap = Bitmap(count: count, isSet: true)
        #expect(bitmap.setCount == count)
        #expect(bitmap.isFull)
        #expect(bitmap.bytes.count == Bitmap.byteCount(of: count))
    }

    @Test func `surplus bits of stored bytes are dropped, missing ones are unset`() {
        #expect(Bitmap(bytes: [0xFF, 0xFF], count: 9).bytes == [0xFF, 0x01])
        #expect(Bitmap(bytes: [0xFF], count: 9).setCount == 8)
    }

    @Test func `the unset bits of a range come in order`() {
        var bitmap = Bitmap(count: 40, isSet: true)
        for index in [3, 8, 31, 39] { bitmap.remove(index) }
        var found: [Int] = []
        bitmap.forEachUnset { found.append($0) }
        #expect(found == [3, 8, 31, 39])
        found = []
        bitmap.forEachUnset(in: 4..<39) { found.append($0) }
        #expect(found == [8, 31])
    }

    @Test func `a slice counts from its own start`() {
        var bitmap = Bitmap(count: 20)
        bitmap.insert(11)
        bitmap.insert(19)
        let slice = bitmap.slice(10..<20)
        #expect(slice.count == 10)
        #expect(slice[1] && slice[9] && slice.setCount == 2)
    }

    @Test func `a union holds both`() {
        var left = Bitmap(count: 10)
        left.insert(1)
        var right = Bitmap(count: 10)
        right.insert(8)
        #expect(!left.isSuperset(of: right))
        left.formUnion(right)
        #expect(left.setCount == 2 && left.isSuperset(of: right))
    }
}
