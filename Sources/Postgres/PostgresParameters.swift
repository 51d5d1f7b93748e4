package import PushCore

/// One parameter of a statement. Nil is SQL's null, with the type kept so that the server infers nothing.
package enum PostgresParameter: Sendable {
    case bool(Bool?)
    case int16(Int16?)
    case int32(Int32?)
    case int64(Int64?)
    case double(Double?)
    case text(String?)
    /// Text as UTF-8 bytes.
    case textBytes([UInt8]?)
    /// Text whose type the server takes from a cast in the statement.
    case unknown(String?)
    case bytes([UInt8]?)
    case uuid(UUIDValue?)
    case timestamp(WallClock.Instant?)
    /// JSON text for a `jsonb` parameter.
    case jsonb(String?)
    /// JSON text as UTF-8 bytes for a `jsonb` parameter.
    case jsonbBytes([UInt8]?)

    case int16s([Int16])
    case int32s([Int32])
    case int64s([Int64])
    case nullableInt64s([Int64?])
    case texts([String])
    case nullableTexts([String?])
    case uuids([UUIDValue])
    case byteArrays([[UInt8]])
    case nullableByteArrays([[UInt8]?])
    case timestamps([WallClock.Instant])
    case nullableTimestamps([WallClock.Instant?])

    /// An identifier in its column's type.
    package static func job(_ id: JobID?) -> PostgresParameter { .uuid(id?.value) }
    package static func batch(_ id: BatchID?) -> PostgresParameter { .int64(id?.value) }
    package static func device(_ id: DeviceID?) -> PostgresParameter { .int64(id?.value) }
    package static func app(_ id: AppID?) -> PostgresParameter { .int32(id?.value) }
    package static func credential(_ id: CredentialID?) -> PostgresParameter { .int64(id?.value) }
    package static func lease(_ token: LeaseToken?) -> PostgresParameter { .uuid(token?.value) }
}

/// The parameters of one statement in binary form, in one buffer. Written as an array literal, or built and reused.
package struct PostgresParameters: Sendable, ExpressibleByArrayLiteral {
    /// Where a value stands in the buffer; a length of -1 is null.
    struct Field {
        let type: PostgresType
        let offset: Int
        let length: Int32
    }

    private(set) var bytes: [UInt8] = []
    private(set) var fields: [Field] = []

    /// No parameters.
    package static let none = PostgresParameters()

    package init() {}

    package init(arrayLiteral elements: PostgresParameter...) {
        self.init(elements)
    }

    package init(_ parameters: [PostgresParameter]) {
        fields.reserveCapacity(parameters.count)
        for parameter in parameters { append(parameter) }
    }

    package var count: Int { fields.count }

    /// Forgets the parameters and keeps the memory.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
    }

    /// Adds the next parameter.
    package mutating func append(_ parameter: PostgresParameter) {
        switch parameter {
        case .bool(let value): append(.bool, value) { $0.append($1 ? 1 : 0) }
        case .int16(let value): append(.int2, value) { $0.appendBigEndian($1) }
        case .int32(let value): append(.int4, value) { $0.appendBigEndian($1) }
        case .int64(let value): append(.int8, value) { $0.appendBigEndian($1) }
        case .double(let value): append(.float8, value) { $0.appendBigEndian($1.bitPattern) }
        case .text(let value): append(.text, value) { $0.append(contentsOf: $1.utf8) }
        case .textBytes(let value): append(.text, value) { $0.append(contentsOf: $1) }
        case .unknown(let value):
            // In text form, whose end libpq finds by a zero byte.
            append(.unknown, value) { $0.append(contentsOf: $1.utf8) }
            bytes.append(0)
        case .bytes(let value): append(.bytea, value) { $0.append(contentsOf: $1) }
        case .uuid(let value): append(.uuid, value) { $0.appendBinary($1) }
        case .timestamp(let value): append(.timestamptz, value) { $0.appendBinary($1) }
        case .jsonb(let value): append(.jsonb, value) { $0.appendJSONB($1.utf8) }
        case .jsonbBytes(let value): append(.jsonb, value) { $0.appendJSONB($1) }
        default: appendArray(parameter)
        }
    }

    private mutating func appendArray(_ parameter: PostgresParameter) {
        switch parameter {
        case .int16s(let values): append(.int2Array, values, of: .int2) { $0.appendBigEndian($1) }
        case .int32s(let values): append(.int4Array, values, of: .int4) { $0.appendBigEndian($1) }
        case .int64s(let values): append(.int8Array, values, of: .int8) { $0.appendBigEndian($1) }
        case .nullableInt64s(let values): append(.int8Array, nullable: values, of: .int8) { $0.appendBigEndian($1) }
        case .texts(let values): append(.textArray, values, of: .text) { $0.append(contentsOf: $1.utf8) }
        case .nullableTexts(let values):
            append(.textArray, nullable: values, of: .text) { $0.append(contentsOf: $1.utf8) }
        case .uuids(let values): append(.uuidArray, values, of: .uuid) { $0.appendBinary($1) }
        case .byteArrays(let values): append(.byteaArray, values, of: .bytea) { $0.append(contentsOf: $1) }
        case .nullableByteArrays(let values):
            append(.byteaArray, nullable: values, of: .bytea) { $0.append(contentsOf: $1) }
        case .timestamps(let values): append(.timestamptzArray, values, of: .timestamptz) { $0.appendBinary($1) }
        case .nullableTimestamps(let values):
            append(.timestamptzArray, nullable: values, of: .timestamptz) { $0.appendBinary($1) }
        default: preconditionFailure("a parameter that is no array came to the arrays")
        }
    }

    private mutating func append<Value>(
        _ type: PostgresType,
        _ value: Value?,
        encode: (inout [UInt8], Value) -> Void
    ) {
        let offset = bytes.count
        guard let value else {
            fields.append(Field(type: type, offset: offset, length: -1))
            return
        }
        encode(&bytes, value)
        fields.append(Field(type: type, offset: offset, length: Int32(bytes.count - offset)))
    }

    private mutating func append<Value>(
        _ type: PostgresType,
        _ values: [Value],
        of elementType: PostgresType,
        encode: (inout [UInt8], Value) -> Void
    ) {
        append(type, values) { buffer, values in
            buffer.appendArray(values, of: elementType, encode: encode)
        }
    }

    private mutating func append<Value>(
        _ type: PostgresType,
        nullable values: [Value?],
        of elementType: PostgresType,
        encode: (inout [UInt8], Value) -> Void
    ) {
        append(type, values) { buffer, values in
            buffer.appendArray(nullable: values, of: elementType, encode: encode)
        }
    }
}

extension [UInt8] {
    /// Adds the binary form of `jsonb`: its version, then the text.
    mutating func appendJSONB(_ text: some Sequence<UInt8>) {
        append(1)
        append(contentsOf: text)
    }

    /// Adds the binary form of a one-dimensional array without nulls.
    mutating func appendArray<Value>(
        _ values: [Value],
        of type: PostgresType,
        encode: (inout [UInt8], Value) -> Void
    ) {
        appendArrayHead(count: values.count, hasNulls: false, type: type)
        guard let length = type.fixedLength else {
            for value in values { appendElement(value, encode: encode) }
            return
        }
        reserveCapacity(count + values.count * (4 + Int(length)))
        for value in values {
            appendBigEndian(length)
            encode(&self, value)
        }
    }

    /// Adds the binary form of a one-dimensional array that may hold nulls.
    mutating func appendArray<Value>(
        nullable values: [Value?],
        of type: PostgresType,
        encode: (inout [UInt8], Value) -> Void
    ) {
        appendArrayHead(count: values.count, hasNulls: values.contains { $0 == nil }, type: type)
        for value in values {
            if let value { appendElement(value, encode: encode) } else { appendBigEndian(Int32(-1)) }
        }
    }

    /// An empty array has no dimension at all.
    private mutating func appendArrayHead(count: Int, hasNulls: Bool, type: PostgresType) {
        appendBigEndian(Int32(count == 0 ? 0 : 1))
        appendBigEndian(Int32(hasNulls ? 1 : 0))
        appendBigEndian(type.rawValue)
        guard count > 0 else { return }
        appendBigEndian(Int32(count))
        appendBigEndian(Int32(1))
    }

    private mutating func appendElement<Value>(_ value: Value, encode: (inout [UInt8], Value) -> Void) {
        let lengthOffset = count
        appendBigEndian(Int32(0))
        encode(&self, value)
        replaceBigEndian(at: lengthOffset, with: Int32(count - lengthOffset - 4))
    }
}
