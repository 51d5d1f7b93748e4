/// The types that travel in binary form, with the numbers that PostgreSQL has for them.
package enum PostgresType: UInt32, Sendable {
    case bool = 16
    case bytea = 17
    case int8 = 20
    case int2 = 21
    case int4 = 23
    case text = 25
    case json = 114
    case float4 = 700
    case float8 = 701
    /// Left to the server: for values that the statement casts.
    case unknown = 705
    case timestamptz = 1184
    case uuid = 2950
    case jsonb = 3802
    case byteaArray = 1001
    case int2Array = 1005
    case int4Array = 1007
    case textArray = 1009
    case int8Array = 1016
    case timestamptzArray = 1185
    case uuidArray = 2951

    /// The length of each value in bytes, for types where all have the same.
    var fixedLength: Int32? {
        switch self {
        case .bool: 1
        case .int2: 2
        case .int4, .float4: 4
        case .int8, .float8, .timestamptz: 8
        case .uuid: 16
        default: nil
        }
    }
}

/// PostgreSQL counts microseconds from 2000-01-01; we count from 1970-01-01.
let microsecondsFrom1970To2000: Int64 = 946_684_800_000_000
