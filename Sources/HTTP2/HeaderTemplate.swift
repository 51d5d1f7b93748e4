internal import Glibc

// The header blocks of a batch's requests on one connection, encoded but for what is a request's own.
//
// The first request of a batch goes through `firstBlock`, which enters its fields into the peer's table. Those that
// follow are written from the template, where each of these fields is a byte or two (or a literal coded once): a
// request costs two copies, its path and its own values.
final class HeaderTemplate {
    let batch: RequestBatch
    let poolFields: PoolFields
    let tableVersion: Int
    // Method, scheme and authority; then comes the path, then the tail: the fields of pool and batch.
    private let head: PinnedBytes
    private let tail: PinnedBytes
    // How each own field begins, up to its value.
    private let ownNames: [PinnedBytes]
    // What the fields weigh in the peer's limit of a header's size, without paths and own fields.
    private let fixedSize: Int

    // The block of one request, with all that may be remembered entered into the table.
    static func firstBlock(
        of entry: RequestBatch.Entry,
        in batch: RequestBatch,
        _ poolFields: PoolFields,
        _ table: inout HeaderTable
    ) -> [UInt8] {
        var writer = HeaderBlockWriter()
        writer.appendSizeUpdates(of: &table)
        writer.appendStart(method: batch.bytes.bytes(of: batch.method))
        writer.append(Array(":authority".utf8), poolFields.authority, entering: &table)
        writer.appendPath(batch.bytes.bytes(of: entry.path))
        for field in poolFields.fields {
            if field.isIndexed {
                writer.append(field.name, field.value, entering: &table)
            } else {
                writer.append(neverIndexed: field.name, field.value, lookingInto: table)
            }
        }
        for field in batch.sharedFields {
            writer.append(batch, field.name, field.value, isIndexed: field.isIndexed, &table)
        }
        for (position, field) in batch.ownFields.enumerated() {
            let value = entry.ownValue(position)
            if !value.isEmpty { writer.append(batch, field.name, value, isIndexed: false, &table) }
        }
        return writer.bytes
    }

    init(batch: RequestBatch, poolFields: PoolFields, table: HeaderTable) {
        self.batch = batch
        self.poolFields = poolFields
        tableVersion = table.version
        var writer = HeaderBlockWriter()
        writer.appendStart(method: batch.bytes.bytes(of: batch.method))
        writer.append(Array(":authority".utf8), poolFields.authority, lookingInto: table)
        head = PinnedBytes(writer.bytes)
        writer = HeaderBlockWriter()
        for field in poolFields.fields {
            if field.isIndexed {
                writer.append(field.name, field.value, lookingInto: table)
            } else {
                writer.append(neverIndexed: field.name, field.value, lookingInto: table)
            }
        }
        for field in batch.sharedFields {
            writer.append(
                batch.bytes.bytes(of: field.name),
                batch.bytes.bytes(of: field.value),
                lookingInto: table
            )
        }
        tail = PinnedBytes(writer.bytes)
        ownNames = batch.ownFields.map { field in
            var writer = HeaderBlockWriter()
            writer.appendName(batch.bytes.bytes(of: field.name), lookingInto: table)
            return PinnedBytes(writer.bytes)
        }
        fixedSize = HeaderTemplate.fixedSize(batch, poolFields)
    }

    // The same for another batch that has the same fields.
    init(_ other: HeaderTemplate, for batch: RequestBatch) {
        self.batch = batch
        poolFields = other.poolFields
        tableVersion = other.tableVersion
        head = other.head
        tail = other.tail
        ownNames = other.ownNames
        fixedSize = other.fixedSize
    }

    // MARK: Sizes

    // How many bytes the block of a request has.
    func blockCount(of entry: RequestBatch.Entry) -> Int {
        var count = head.count + 1 + HeaderTemplate.stringCount(entry.path) + tail.count
        for position in ownNames.indices {
            let value = entry.ownValue(position)
            if !value.isEmpty { count += ownNames[position].count + HeaderTemplate.stringCount(value) }
        }
        return count
    }

    // How much a request weighs in the peer's limit of a header's size.
    func listSize(of entry: RequestBatch.Entry) -> Int {
        fixedSize + HeaderTemplate.ownSize(of: entry, in: batch)
    }

    static func listSize(of entry: RequestBatch.Entry, in batch: RequestBatch, _ poolFields: PoolFields) -> Int {
        fixedSize(batch, poolFields) + ownSize(of: entry, in: batch)
    }

    private static func fixedSize(_ batch: RequestBatch, _ poolFields: PoolFields) -> Int {
        var size = HeaderTable.size(7, Int(batch.method.count)) + HeaderTable.size(7, 5)
        size += HeaderTable.size(10, poolFields.authority.count)
        for field in poolFields.fields { size += HeaderTable.size(field.name.count, field.value.count) }
        for field in batch.sharedFields { size += HeaderTable.size(Int(field.name.count), Int(field.value.count)) }
        return size
    }

    private static func ownSize(of entry: RequestBatch.Entry, in batch: RequestBatch) -> Int {
        var size = HeaderTable.size(5, Int(entry.path.count))
        for position in batch.ownFields.indices {
            let value = entry.ownValue(position)
            if !value.isEmpty { size += HeaderTable.size(Int(batch.ownFields[position].name.count), Int(value.count)) }
        }
        return size
    }

    // How many bytes a string takes, its length included.
    private static func stringCount(_ range: ByteRange) -> Int {
        let count = Int(range.count)
        return count < 127 ? count + 1 : count + HeaderBlockWriter.integer(count, bits: 7, pattern: 0).count
    }

    // MARK: Writing

    // Writes the block of a request, `blockCount` bytes, and says where it ends.
    func writeBlock(of entry: RequestBatch.Entry, to start: UnsafeMutablePointer<UInt8>) -> UnsafeMutablePointer<UInt8>
    {
        var place = unsafe HeaderTemplate.copy(head, to: start)
        unsafe place.pointee = HeaderBlockWriter.literalPath
        unsafe place = unsafe writeString(entry.path, to: place + 1)
        unsafe place = unsafe HeaderTemplate.copy(tail, to: place)
        for position in ownNames.indices {
            let value = entry.ownValue(position)
            if value.isEmpty { continue }
            unsafe place = unsafe HeaderTemplate.copy(ownNames[position], to: place)
            unsafe place = unsafe writeString(value, to: place)
        }
        return unsafe place
    }

    private static func copy(
        _ bytes: PinnedBytes,
        to place: UnsafeMutablePointer<UInt8>
    ) -> UnsafeMutablePointer<UInt8> {
        unsafe place.update(from: bytes.base, count: bytes.count)
        return unsafe place + bytes.count
    }

    // A string without Huffman coding: for the paths and ids that we send it saves a quarter of the bytes and costs
    // both sides more than these bytes do.
    private func writeString(
        _ range: ByteRange,
        to start: UnsafeMutablePointer<UInt8>
    ) -> UnsafeMutablePointer<UInt8> {
        var place = unsafe start
        if range.count < 127 {
            unsafe place.pointee = UInt8(truncatingIfNeeded: range.count)
            unsafe place += 1
        } else {
            for byte in HeaderBlockWriter.integer(Int(range.count), bits: 7, pattern: 0) {
                unsafe place.pointee = byte
                unsafe place += 1
            }
        }
        unsafe place.update(from: batch.bytes.pointer(to: range), count: Int(range.count))
        return unsafe place + Int(range.count)
    }
}

extension HeaderBlockWriter {
    // Of a value that will not come again only the first one is remembered: it carries the name into the table.
    fileprivate mutating func append(
        _ batch: RequestBatch,
        _ name: ByteRange,
        _ value: ByteRange,
        isIndexed: Bool,
        _ table: inout HeaderTable
    ) {
        let name = batch.bytes.bytes(of: name)
        let value = batch.bytes.bytes(of: value)
        if isIndexed || table.find(name) == .none {
            append(name, value, entering: &table)
        } else {
            append(name, value, lookingInto: table)
        }
    }
}

extension RequestBatch {
    // Whether a template of one serves the other: method, shared fields and the names of own fields are the same.
    func hasFields(of other: RequestBatch) -> Bool {
        sharedFields.count == other.sharedFields.count && ownFields.count == other.ownFields.count
            && holds(method, as: other.method, of: other)
            && zip(sharedFields, other.sharedFields).allSatisfy { isSame($0, $1, of: other) }
            && zip(ownFields, other.ownFields).allSatisfy { isSame($0, $1, of: other) }
    }

    private func isSame(_ field: Field, _ otherField: Field, of other: RequestBatch) -> Bool {
        field.isIndexed == otherField.isIndexed && holds(field.name, as: otherField.name, of: other)
            && holds(field.value, as: otherField.value, of: other)
    }

    private func holds(_ range: ByteRange, as otherRange: ByteRange, of other: RequestBatch) -> Bool {
        guard range.count == otherRange.count else { return false }
        return unsafe memcmp(bytes.pointer(to: range), other.bytes.pointer(to: otherRange), Int(range.count)) == 0
    }
}

extension RequestBatch.Entry {
    func ownValue(_ position: Int) -> ByteRange {
        position == 0 ? firstValue : secondValue
    }
}
