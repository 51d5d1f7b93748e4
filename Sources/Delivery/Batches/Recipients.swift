import Postgres
import PushCore

/// The devices of a batch as they are now, in the order of its slice. Holds the rows as they came from the server.
struct Recipients: Sendable {
    private let rows: PostgresRows
    /// The device ids of the slice, ascending.
    let ids: [Int64]
    // The row of each recipient, -1 where the device is gone.
    private let rowOf: [Int32]

    var count: Int { ids.count }

    /// Merges the rows of `delivery_resolve_recipients`; nil when the page is gone.
    init?(_ rows: PostgresRows) throws(PostgresError) {
        guard let slice = rows.indices.first(where: { !rows.isNull($0, Column.ids) }) else { return nil }
        self.rows = rows
        ids = try rows.int64Array(slice, Column.ids)
        var rowOf = [Int32](repeating: -1, count: ids.count)
        var position = 0
        for row in rows.indices where row != slice {
            let id = try rows.int64(row, Column.id)
            // Both sides ascend, but for plans that read the table in its own order.
            if position < ids.count, ids[position] <= id {
                while position < ids.count, ids[position] < id { position += 1 }
            } else {
                position = Self.lowerBound(of: id, in: ids)
            }
            if position < ids.count, ids[position] == id { rowOf[position] = Int32(row) }
        }
        self.rowOf = rowOf
    }

    /// The batches of `delivery_look_up_recipients`, by their places from 0; none where the page is gone.
    static func together(_ rows: PostgresRows) throws(PostgresError) -> [Int: Recipients] {
        var found: [Int: Recipients] = [:]
        var first = 0
        while first < rows.count {
            let part = try rows.int64(first, Column.part)
            var end = first + 1
            while end < rows.count, try rows.int64(end, Column.part) == part { end += 1 }
            found[Int(part) - 1] = try Recipients(rows, in: first..<end)
            first = end
        }
        return found
    }

    private init(_ rows: PostgresRows, in range: Range<Int>) throws(PostgresError) {
        self.rows = rows
        var ids: [Int64] = []
        for row in range { ids.append(try rows.int64(row, Column.id)) }
        self.ids = ids
        rowOf = range.map { rows.isNull($0, Column.isDisabled) ? -1 : Int32($0) }
    }

    /// What a device is like.
    enum Standing: Equatable {
        case reachable
        case gone, disabled, withoutToken, otherRoute
    }

    /// Whether a recipient can be reached by a route, and if not, why.
    func standing(of index: Int, on route: Route) throws(PostgresError) -> Standing {
        let row = Int(rowOf[index])
        if row < 0 { return .gone }
        if try rows.bool(row, Column.isDisabled) { return .disabled }
        if rows.isNull(row, Column.token) { return .withoutToken }
        return try rows.int16(row, Column.route) == route.rawValue ? .reachable : .otherRoute
    }

    /// Adds the bytes of a reachable recipient's token.
    func appendToken(of index: Int, to buffer: inout [UInt8]) throws(PostgresError) {
        try rows.appendBytes(Int(rowOf[index]), Column.token, to: &buffer)
    }

    /// The bytes of a reachable recipient's token.
    func token(of index: Int) throws(PostgresError) -> [UInt8] {
        try rows.bytes(Int(rowOf[index]), Column.token)
    }

    /// Lets `body` read a reachable recipient's locale, which may be empty.
    func withLocale<Value>(
        of index: Int,
        _ body: (Span<UInt8>) -> Value
    ) throws(PostgresError) -> Value? {
        let row = Int(rowOf[index])
        guard !rows.isNull(row, Column.locale) else { return nil }
        return try rows.withBytes(row, Column.locale) { bytes throws(PostgresError) in body(bytes) }
    }

    private enum Column {
        static let id = 0
        static let route = 1
        static let token = 2
        static let locale = 3
        static let isDisabled = 4
        /// Of a large batch.
        static let ids = 5
        /// Of small ones.
        static let part = 5
    }

    private static func lowerBound(of id: Int64, in ids: [Int64]) -> Int {
        var low = 0
        var high = ids.count
        while low < high {
            let middle = (low + high) / 2
            if ids[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
