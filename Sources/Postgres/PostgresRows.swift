import CPostgres
package import PushCore

/// The rows that one statement returned, as libpq received them.
///
/// Reading a number costs two calls into libpq and no allocation, a few nanoseconds; `text` and `bytes` allocate.
/// Rows and columns count from 0. A value of another type, or null where the reader does not allow it, throws
/// `.decoding` and names the statement and the column; a row or column that does not exist stops the process.
@safe package final class PostgresRows: @unchecked Sendable {
    // Nobody writes to the result once libpq has handed it over, so that any thread may read it.
    private let result: OpaquePointer
    private let columnTypes: [UInt32]
    /// The statement that returned them.
    package let statementName: String
    /// The number of rows.
    package let count: Int

    /// Takes the result over and frees it in the end.
    init(_ result: OpaquePointer, statementName: String) {
        unsafe self.result = unsafe result
        self.statementName = statementName
        unsafe count = Int(PQntuples(result))
        // What came in text form, from a script, is text whatever its type: only `text` and `bytes` may read it.
        unsafe columnTypes = (0..<PQnfields(result)).map { column in
            unsafe PQfformat(result, column) == 0 ? PostgresType.text.rawValue : PQftype(result, column)
        }
    }

    deinit {
        unsafe PQclear(result)
    }

    package var isEmpty: Bool { count == 0 }
    package var indices: Range<Int> { 0..<count }
    package var columnCount: Int { columnTypes.count }

    /// How many rows an INSERT, UPDATE, DELETE, MERGE or COPY touched; for a SELECT, how many it returned.
    package var affectedCount: Int {
        unsafe Int(String(cString: PQcmdTuples(result))) ?? 0
    }

    /// The command's tag, such as `UPDATE 1`.
    package var commandTag: String {
        unsafe String(cString: PQcmdStatus(result))
    }

    /// The place of a column by its name; throws when there is none.
    package func column(named name: String) throws(PostgresError) -> Int {
        let number = unsafe PQfnumber(result, name)
        guard number >= 0 else {
            throw PostgresError(
                .decoding,
                activity: "read the column \(name) of \(statementName)",
                message: "the statement returns no such column",
                statementName: statementName
            )
        }
        return Int(number)
    }

    package func isNull(_ row: Int, _ column: Int) -> Bool {
        checkBounds(row, column)
        return unsafe PQgetisnull(result, Int32(truncatingIfNeeded: row), Int32(truncatingIfNeeded: column)) != 0
    }

    package func int16(_ row: Int, _ column: Int) throws(PostgresError) -> Int16 {
        let cell = unsafe try cell(row, column)
        guard columnTypes[column] == PostgresType.int2.rawValue, cell.count == 2 else {
            throw unfit(row, column, "a smallint")
        }
        return unsafe cell.bigEndian(at: 0, as: Int16.self)
    }

    /// An `integer` or `smallint`.
    package func int32(_ row: Int, _ column: Int) throws(PostgresError) -> Int32 {
        let cell = unsafe try cell(row, column)
        switch (columnTypes[column], cell.count) {
        case (PostgresType.int4.rawValue, 4): return unsafe cell.bigEndian(at: 0, as: Int32.self)
        case (PostgresType.int2.rawValue, 2): return unsafe Int32(cell.bigEndian(at: 0, as: Int16.self))
        default: throw unfit(row, column, "an integer")
        }
    }

    /// A `bigint`, `integer` or `smallint`.
    package func int64(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
        let cell = unsafe try cell(row, column)
        switch (columnTypes[column], cell.count) {
        case (PostgresType.int8.rawValue, 8): return unsafe cell.bigEndian(at: 0, as: Int64.self)
        case (PostgresType.int4.rawValue, 4): return unsafe Int64(cell.bigEndian(at: 0, as: Int32.self))
        case (PostgresType.int2.rawValue, 2): return unsafe Int64(cell.bigEndian(at: 0, as: Int16.self))
        default: throw unfit(row, column, "a bigint")
        }
    }

    package func bool(_ row: Int, _ column: Int) throws(PostgresError) -> Bool {
        let cell = unsafe try cell(row, column)
        guard columnTypes[column] == PostgresType.bool.rawValue, cell.count == 1 else {
            throw unfit(row, column, "a boolean")
        }
        return unsafe cell[0] != 0
    }

    /// A `double precision` or `real`.
    package func double(_ row: Int, _ column: Int) throws(PostgresError) -> Double {
        let cell = unsafe try cell(row, column)
        switch (columnTypes[column], cell.count) {
        case (PostgresType.float8.rawValue, 8):
            return unsafe Double(bitPattern: cell.bigEndian(at: 0, as: UInt64.self))
        case (PostgresType.float4.rawValue, 4):
            return unsafe Double(Float(bitPattern: cell.bigEndian(at: 0, as: UInt32.self)))
        default: throw unfit(row, column, "a double precision")
        }
    }

    package func uuid(_ row: Int, _ column: Int) throws(PostgresError) -> UUIDValue {
        let cell = unsafe try cell(row, column)
        guard columnTypes[column] == PostgresType.uuid.rawValue, cell.count == 16 else {
            throw unfit(row, column, "a uuid")
        }
        return unsafe cell.uuid(at: 0)
    }

    /// A `timestamptz`; -infinity and infinity are the first and the last moment.
    package func timestamp(_ row: Int, _ column: Int) throws(PostgresError) -> WallClock.Instant {
        let cell = unsafe try cell(row, column)
        guard columnTypes[column] == PostgresType.timestamptz.rawValue, cell.count == 8 else {
            throw unfit(row, column, "a timestamptz")
        }
        return unsafe cell.timestamp(at: 0)
    }

    /// Any text, `name`, enum, `json` or `jsonb` as a String.
    package func text(_ row: Int, _ column: Int) throws(PostgresError) -> String {
        let cell = unsafe try textCell(row, column)
        return unsafe String(decoding: cell, as: UTF8.self)
    }

    /// The bytes of a `bytea`, or of any text in UTF-8, in an array of their own.
    package func bytes(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8] {
        let cell = unsafe try byteCell(row, column)
        return unsafe Array(cell)
    }

    /// Lets `body` read the bytes of a `bytea`, or of any text in UTF-8, where they are: nothing is copied.
    package func withBytes<Value>(
        _ row: Int,
        _ column: Int,
        _ body: (Span<UInt8>) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value {
        let cell = unsafe try byteCell(row, column)
        let bytes = unsafe UnsafeBufferPointer(
            start: cell.baseAddress?.assumingMemoryBound(to: UInt8.self),
            count: cell.count
        )
        return unsafe try body(bytes.span)
    }

    /// Adds the bytes of a `bytea`, or of any text in UTF-8, to a buffer and returns how many they were.
    @discardableResult
    package func appendBytes(_ row: Int, _ column: Int, to buffer: inout [UInt8]) throws(PostgresError) -> Int {
        let cell = unsafe try byteCell(row, column)
        unsafe buffer.append(contentsOf: cell)
        return cell.count
    }
}

extension PostgresRows {
    /// The cell's bytes, which live as long as this object. Throws on null.
    @inline(__always)
    func cell(_ row: Int, _ column: Int) throws(PostgresError) -> UnsafeRawBufferPointer {
        checkBounds(row, column)
        let row32 = Int32(truncatingIfNeeded: row)
        let column32 = Int32(truncatingIfNeeded: column)
        let length = unsafe PQgetlength(result, row32, column32)
        // Only an empty cell can be null: the third call is rare.
        if length == 0, unsafe PQgetisnull(result, row32, column32) != 0 { throw unfit(row, column, "a value") }
        return unsafe UnsafeRawBufferPointer(start: PQgetvalue(result, row32, column32), count: Int(length))
    }

    /// The type of a column.
    @inline(__always)
    func type(of column: Int) -> UInt32 { columnTypes[column] }

    private func checkBounds(_ row: Int, _ column: Int) {
        precondition(
            row >= 0 && row < count && column >= 0 && column < columnTypes.count,
            "there is no such row or column in the result"
        )
    }

    /// Types that are sent as text are many (enums and domains among them); those that are not are few.
    private func textCell(_ row: Int, _ column: Int) throws(PostgresError) -> UnsafeRawBufferPointer {
        let cell = unsafe try cell(row, column)
        switch PostgresType(rawValue: columnTypes[column]) {
        case .text, .json, .unknown, nil: return unsafe cell
        case .jsonb: return unsafe UnsafeRawBufferPointer(rebasing: cell.dropFirst())
        default: throw unfit(row, column, "a text")
        }
    }

    private func byteCell(_ row: Int, _ column: Int) throws(PostgresError) -> UnsafeRawBufferPointer {
        guard columnTypes[column] == PostgresType.bytea.rawValue else { return unsafe try textCell(row, column) }
        return unsafe try cell(row, column)
    }

    /// The error of a cell that is null or of another type.
    func unfit(_ row: Int, _ column: Int, _ expected: String) -> PostgresError {
        let name = unsafe String(cString: PQfname(result, Int32(column)))
        let found = isNull(row, column) ? "null" : "type \(columnTypes[column])"
        return PostgresError(
            .decoding,
            activity: "read the column \(name) of \(statementName)",
            message: "the reader expects \(expected), the statement returned \(found)",
            statementName: statementName
        )
    }
}

extension UnsafeRawBufferPointer {
    /// Reads a number without a check: the caller has looked at the length.
    @inline(__always)
    func bigEndian<Value: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Value.Type) -> Value {
        unsafe Value(bigEndian: loadUnaligned(fromByteOffset: offset, as: Value.self))
    }

    @inline(__always)
    func uuid(at offset: Int) -> UUIDValue {
        unsafe UUIDValue(high: bigEndian(at: offset, as: UInt64.self), low: bigEndian(at: offset + 8, as: UInt64.self))
    }

    @inline(__always)
    func timestamp(at offset: Int) -> WallClock.Instant {
        let value = unsafe bigEndian(at: offset, as: Int64.self)
        guard value != .min, value != .max else { return WallClock.Instant(microsecondsSinceEpoch: value) }
        return WallClock.Instant(microsecondsSinceEpoch: value + microsecondsFrom1970To2000)
    }
}
