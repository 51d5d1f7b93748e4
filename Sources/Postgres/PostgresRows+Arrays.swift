package import PushCore

// Readers of whole columns and of array values.
extension PostgresRows {
    /// A whole column of `bigint` without nulls. About 5 ns a row.
    package func int64Column(_ column: Int) throws(PostgresError) -> [Int64] {
        var values: [Int64] = []
        values.reserveCapacity(count)
        for row in 0..<count { values.append(try int64(row, column)) }
        return values
    }

    /// A `bigint[]` without nulls. About 1 ns an element.
    package func int64Array(_ row: Int, _ column: Int) throws(PostgresError) -> [Int64] {
        var values: [Int64] = []
        try appendInt64Array(row, column, to: &values)
        return values
    }

    /// Adds the elements of a `bigint[]` without nulls to an array, and returns how many they were.
    @discardableResult
    package func appendInt64Array(
        _ row: Int,
        _ column: Int,
        to values: inout [Int64]
    ) throws(PostgresError) -> Int {
        let array = try BinaryArray(self, row, column, type: .int8Array, "a bigint[]")
        // Without nulls each element is its length, always 8, and its value.
        let stride = 12
        guard !array.hasNulls, array.bodyLength == array.count * stride else {
            throw unfit(row, column, "a bigint[] without nulls")
        }
        values.reserveCapacity(values.count + array.count)
        for element in 0..<array.count {
            unsafe values.append(array.body.bigEndian(at: element * stride + 4, as: Int64.self))
        }
        return array.count
    }

    /// An `integer[]` without nulls.
    package func int32Array(_ row: Int, _ column: Int) throws(PostgresError) -> [Int32] {
        unsafe try elements(row, column, .int4Array, "an integer[] without nulls", length: 4) {
            unsafe $0.bigEndian(at: 0, as: Int32.self)
        }
    }

    /// A `smallint[]` without nulls.
    package func int16Array(_ row: Int, _ column: Int) throws(PostgresError) -> [Int16] {
        unsafe try elements(row, column, .int2Array, "a smallint[] without nulls", length: 2) {
            unsafe $0.bigEndian(at: 0, as: Int16.self)
        }
    }

    /// A `uuid[]` without nulls.
    package func uuidArray(_ row: Int, _ column: Int) throws(PostgresError) -> [UUIDValue] {
        unsafe try elements(row, column, .uuidArray, "a uuid[] without nulls", length: 16) { unsafe $0.uuid(at: 0) }
    }

    /// A `timestamptz[]` without nulls.
    package func timestampArray(_ row: Int, _ column: Int) throws(PostgresError) -> [WallClock.Instant] {
        unsafe try elements(row, column, .timestamptzArray, "a timestamptz[] without nulls", length: 8) {
            unsafe $0.timestamp(at: 0)
        }
    }

    /// A `text[]` without nulls.
    package func textArray(_ row: Int, _ column: Int) throws(PostgresError) -> [String] {
        unsafe try elements(row, column, .textArray, "a text[] without nulls", length: nil) {
            unsafe String(decoding: $0, as: UTF8.self)
        }
    }

    /// A `text[]` that may hold nulls.
    package func nullableTextArray(_ row: Int, _ column: Int) throws(PostgresError) -> [String?] {
        var array = try BinaryArray(self, row, column, type: .textArray, "a text[]")
        var values: [String?] = []
        values.reserveCapacity(array.count)
        for _ in 0..<array.count {
            let element = unsafe try array.next(self, row, column)
            unsafe values.append(element.map { unsafe String(decoding: $0, as: UTF8.self) })
        }
        return values
    }

    private func elements<Value>(
        _ row: Int,
        _ column: Int,
        _ type: PostgresType,
        _ expected: String,
        length: Int?,
        decode: (UnsafeRawBufferPointer) -> Value
    ) throws(PostgresError) -> [Value] {
        var array = try BinaryArray(self, row, column, type: type, expected)
        var values: [Value] = []
        values.reserveCapacity(array.count)
        for _ in 0..<array.count {
            guard let element = unsafe try array.next(self, row, column),
                length == nil || element.count == length
            else { throw unfit(row, column, expected) }
            unsafe values.append(decode(element))
        }
        return values
    }
}

/// Walks over the binary form of a one-dimensional array: a head of 20 bytes (12 if empty), then the elements.
@safe private struct BinaryArray {
    let count: Int
    let hasNulls: Bool
    let body: UnsafeRawBufferPointer
    private var offset = 0

    init(
        _ rows: PostgresRows,
        _ row: Int,
        _ column: Int,
        type: PostgresType,
        _ expected: String
    ) throws(PostgresError) {
        let cell = unsafe try rows.cell(row, column)
        guard rows.type(of: column) == type.rawValue, cell.count >= 12 else { throw rows.unfit(row, column, expected) }
        let dimensions = unsafe cell.bigEndian(at: 0, as: Int32.self)
        hasNulls = unsafe cell.bigEndian(at: 4, as: Int32.self) != 0
        guard dimensions > 0 else {
            count = 0
            unsafe body = UnsafeRawBufferPointer(start: nil, count: 0)
            return
        }
        let length = cell.count >= 20 ? unsafe Int(cell.bigEndian(at: 12, as: Int32.self)) : -1
        // Each element has at least the four bytes of its length.
        guard dimensions == 1, length >= 0, length <= (cell.count - 20) / 4 else {
            throw rows.unfit(row, column, "\(expected) of one dimension")
        }
        count = length
        unsafe body = UnsafeRawBufferPointer(rebasing: cell.dropFirst(20))
    }

    var bodyLength: Int { unsafe body.count }

    /// The bytes of the next element; nil for a null.
    mutating func next(_ rows: PostgresRows, _ row: Int, _ column: Int) throws(PostgresError) -> UnsafeRawBufferPointer?
    {
        guard unsafe offset + 4 <= body.count else { throw rows.unfit(row, column, "a whole array") }
        let length = unsafe Int(body.bigEndian(at: offset, as: Int32.self))
        offset += 4
        guard length >= 0 else { return nil }
        guard unsafe offset + length <= body.count else { throw rows.unfit(row, column, "a whole array") }
        defer { offset += length }
        return unsafe UnsafeRawBufferPointer(rebasing: body[offset..<(offset + length)])
    }
}
