package import PushCore

/// Rows for a binary COPY FROM STDIN, in one buffer that is reused: adding a row allocates nothing once it has grown.
///
/// For each row `startRow`, then one `append` per column in the order of the COPY statement, in exactly its type:
/// the server refuses the whole COPY otherwise. About 5 ns a number; a row that begins like others costs less
/// by a `PostgresCopyTemplate`.
package struct PostgresCopyBuffer: Sendable {
    /// Signature, flags and the length of the extension: 19 bytes that every binary COPY begins with.
    private static let head: [UInt8] =
        [UInt8]("PGCOPY\n".utf8) + [0xFF] + [UInt8]("\r\n".utf8) + [0] + [UInt8](repeating: 0, count: 8)

    private var bytes: [UInt8]
    /// How many rows were started.
    package private(set) var rowCount = 0

    package init(reservingBytes capacity: Int = 0) {
        bytes = Self.head
        bytes.reserveCapacity(capacity)
    }

    package var isEmpty: Bool { rowCount == 0 }
    /// The size of what would be sent.
    package var byteCount: Int { bytes.count + 2 }

    /// Forgets the rows and keeps the memory.
    package mutating func removeAll() {
        bytes.removeSubrange(Self.head.count...)
        rowCount = 0
    }

    /// Begins a row of that many columns.
    package mutating func startRow(columnCount: Int16) {
        bytes.appendBigEndian(columnCount)
        rowCount += 1
    }

    /// Begins a row like others, with a number of its own.
    package mutating func startRow(like template: PostgresCopyTemplate, int64 value: Int64) {
        let start = bytes.count
        bytes.append(contentsOf: template.bytes)
        bytes.replaceBigEndian(at: start + template.numberOffset, with: value)
        rowCount += 1
    }

    package mutating func appendNull() { bytes.appendBigEndian(Int32(-1)) }

    package mutating func append(bool value: Bool) {
        bytes.appendBigEndian(Int32(1))
        bytes.append(value ? 1 : 0)
    }

    package mutating func append(int16 value: Int16) {
        bytes.appendBigEndian(Int32(2))
        bytes.appendBigEndian(value)
    }

    package mutating func append(int32 value: Int32) {
        bytes.appendBigEndian(UInt64(4) << 32 | UInt64(UInt32(bitPattern: value)))
    }

    package mutating func append(int64 value: Int64) {
        bytes.appendBigEndian(Int32(8))
        bytes.appendBigEndian(value)
    }

    package mutating func append(double value: Double) {
        bytes.appendBigEndian(Int32(8))
        bytes.appendBigEndian(value.bitPattern)
    }

    package mutating func append(uuid value: UUIDValue) {
        bytes.appendBigEndian(Int32(16))
        bytes.appendBinary(value)
    }

    package mutating func append(timestamp value: WallClock.Instant) {
        bytes.appendBigEndian(Int32(8))
        bytes.appendBinary(value)
    }

    package mutating func append(text value: String) {
        appendSized { $0.append(contentsOf: value.utf8) }
    }

    /// A text as UTF-8, or a `bytea`.
    package mutating func append(bytes value: [UInt8]) {
        bytes.appendBigEndian(Int32(value.count))
        bytes.append(contentsOf: value)
    }

    /// A text as UTF-8, or a `bytea`, read where it is; NULL for an empty one.
    package mutating func append(bytesOrNull value: Span<UInt8>) {
        if value.isEmpty { return appendNull() }
        bytes.appendBigEndian(Int32(value.count))
        unsafe value.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
    }

    /// JSON text as UTF-8 for a `jsonb` column.
    package mutating func append(jsonb value: [UInt8]) {
        appendSized { $0.appendJSONB(value) }
    }

    package mutating func append(int64s values: [Int64]) {
        appendSized { $0.appendArray(values, of: .int8) { $0.appendBigEndian($1) } }
    }

    package mutating func append(int32s values: [Int32]) {
        appendSized { $0.appendArray(values, of: .int4) { $0.appendBigEndian($1) } }
    }

    package mutating func append(int16s values: [Int16]) {
        appendSized { $0.appendArray(values, of: .int2) { $0.appendBigEndian($1) } }
    }

    package mutating func append(texts values: [String]) {
        appendSized { $0.appendArray(values, of: .text) { $0.append(contentsOf: $1.utf8) } }
    }

    package mutating func append(uuids values: [UUIDValue]) {
        appendSized { $0.appendArray(values, of: .uuid) { $0.appendBinary($1) } }
    }

    /// The rows, with what every binary COPY begins with.
    var sentBytes: [UInt8] { bytes }

    /// The column count of -1 that ends a binary COPY.
    static let tail: [UInt8] = [0xFF, 0xFF]

    private mutating func appendSized(_ encode: (inout [UInt8]) -> Void) {
        let lengthOffset = bytes.count
        bytes.appendBigEndian(Int32(0))
        encode(&bytes)
        bytes.replaceBigEndian(at: lengthOffset, with: Int32(bytes.count - lengthOffset - 4))
    }
}

/// The columns that many rows of a COPY begin with, the same in all of them but for one number.
package struct PostgresCopyTemplate: Sendable {
    fileprivate let bytes: [UInt8]
    /// Where the number stands in them.
    fileprivate let numberOffset: Int

    /// - Parameters:
    ///   - columnCount: how many columns a row has; those beyond the template are appended to each row.
    ///   - before: appends the columns before the `bigint` that differs from row to row.
    ///   - after: appends those after it.
    package init(
        columnCount: Int16,
        before: (inout PostgresCopyBuffer) -> Void,
        after: (inout PostgresCopyBuffer) -> Void
    ) {
        var row = PostgresCopyBuffer()
        let head = row.sentBytes.count
        row.startRow(columnCount: columnCount)
        before(&row)
        row.append(int64: 0)
        numberOffset = row.sentBytes.count - head - 8
        after(&row)
        bytes = Array(row.sentBytes[head...])
    }
}
