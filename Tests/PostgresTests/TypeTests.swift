import Postgres
import PushCore
import TestSupport
import Testing

@Suite struct TypeTests {
    @Test func `scalars come back as they were sent`() async throws {
        try await withConnection { connection in
            let id = try #require(UUIDValue("01234567-89ab-7def-8edc-ba9876543210"))
            let moment = WallClock.Instant(microsecondsSinceEpoch: 1_796_040_000_123_456)
            let rows = try await connection.query(
                sql("SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::date::text"),
                [
                    .bool(true), .int16(.min), .int32(.min), .int64(.min), .double(-0.1), .text("ü\u{1F514}"),
                    .bytes([0, 1, 255]), .uuid(id), .timestamp(moment), .jsonb(#"{"a": "é"}"#), .unknown("2026-11-30"),
                ]
            )
            #expect(rows.count == 1)
            #expect(rows.columnCount == 11)
            #expect(try rows.bool(0, 0))
            #expect(try rows.int16(0, 1) == .min)
            #expect(try rows.int32(0, 2) == .min)
            #expect(try rows.int64(0, 3) == .min)
            #expect(try rows.double(0, 4) == -0.1)
            #expect(try rows.text(0, 5) == "ü\u{1F514}")
            #expect(try rows.bytes(0, 6) == [0, 1, 255])
            #expect(try rows.uuid(0, 7) == id)
            #expect(try rows.timestamp(0, 8) == moment)
            #expect(try rows.text(0, 9) == #"{"a": "é"}"#)
            #expect(try rows.text(0, 10) == "2026-11-30")
        }
    }

    @Test func `the server understands each value as Swift does`() async throws {
        try await withConnection { connection in
            let rows = try await connection.query(
                sql("SELECT $1::text, $2::text, $3::text, $4::text, ($5::jsonb ->> 'a'), length($6), $7::text"),
                [
                    .int64(-5), .double(1.5), .timestamp(WallClock.Instant("2026-11-30T12:00:00.5Z")),
                    .uuid(UUIDValue(high: 1, low: 2)), .jsonbBytes(Array(#"{"a":7}"#.utf8)), .bytes([1, 2, 3]),
                    .int64s([3, 1]),
                ]
            )
            #expect(try rows.text(0, 0) == "-5")
            #expect(try rows.text(0, 1) == "1.5")
            #expect(try rows.text(0, 2) == "2026-11-30 12:00:00.5+00")
            #expect(try rows.text(0, 3) == "00000000-0000-0001-0000-000000000002")
            #expect(try rows.text(0, 4) == "7")
            #expect(try rows.int32(0, 5) == 3)
            #expect(try rows.text(0, 6) == "{3,1}")
        }
    }

    @Test func `nulls keep their type and are read as nil`() async throws {
        try await withConnection { connection in
            let rows = try await connection.query(
                sql("SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10"),
                [
                    .bool(nil), .int16(nil), .int32(nil), .int64(nil), .double(nil), .text(nil), .bytes(nil),
                    .uuid(nil), .timestamp(nil), .jsonb(nil),
                ]
            )
            for column in 0..<10 { #expect(rows.isNull(0, column)) }
            #expect(try rows.boolOrNil(0, 0) == nil)
            #expect(try rows.int16OrNil(0, 1) == nil)
            #expect(try rows.int32OrNil(0, 2) == nil)
            #expect(try rows.int64OrNil(0, 3) == nil)
            #expect(try rows.doubleOrNil(0, 4) == nil)
            #expect(try rows.textOrNil(0, 5) == nil)
            #expect(try rows.bytesOrNil(0, 6) == nil)
            #expect(try rows.uuidOrNil(0, 7) == nil)
            #expect(try rows.timestampOrNil(0, 8) == nil)
            #expect(try rows.textOrNil(0, 9) == nil)
        }
    }

    @Test func `empty values are not null`() async throws {
        try await withConnection { connection in
            let rows = try await connection.query(sql("SELECT $1, $2"), [.text(""), .bytes([])])
            #expect(!rows.isNull(0, 0) && !rows.isNull(0, 1))
            #expect(try rows.text(0, 0) == "")
            #expect(try rows.bytes(0, 1) == [])
        }
    }

    @Test(arguments: [0, 1, 5000])
    func `arrays of any length come back as they were sent`(count: Int) async throws {
        try await withConnection { connection in
            let numbers = (0..<count).map { Int64($0) * 1_000_000_007 - 3 }
            let texts = numbers.map { "t\($0)" }
            let ids = numbers.map { UUIDValue(high: UInt64(bitPattern: $0), low: 9) }
            let moments = numbers.map { WallClock.Instant(microsecondsSinceEpoch: $0) }
            let rows = try await connection.query(
                sql("SELECT $1, $2, $3, $4, $5, $6, cardinality($7)"),
                [
                    .int64s(numbers), .texts(texts), .uuids(ids), .timestamps(moments),
                    .int32s(numbers.map { Int32(truncatingIfNeeded: $0) }),
                    .int16s(numbers.map { Int16(truncatingIfNeeded: $0) }),
                    .byteArrays(texts.map { Array($0.utf8) }),
                ]
            )
            #expect(try rows.int64Array(0, 0) == numbers)
            #expect(try rows.textArray(0, 1) == texts)
            #expect(try rows.uuidArray(0, 2) == ids)
            #expect(try rows.timestampArray(0, 3) == moments)
            #expect(try rows.int32Array(0, 4) == numbers.map { Int32(truncatingIfNeeded: $0) })
            #expect(try rows.int16Array(0, 5) == numbers.map { Int16(truncatingIfNeeded: $0) })
            #expect(try rows.int32(0, 6) == Int32(count))
            var appended: [Int64] = [7]
            #expect(try rows.appendInt64Array(0, 0, to: &appended) == count)
            #expect(appended == [7] + numbers)
        }
    }

    @Test func `nulls within arrays are kept, and refused where they are not expected`() async throws {
        try await withConnection { connection in
            let rows = try await connection.query(
                sql("SELECT $1, $2, $3::text, $4::text"),
                [
                    .nullableTexts(["a", nil, ""]), .nullableInt64s([1, nil]), .nullableByteArrays([nil, [65]]),
                    .nullableTimestamps([nil, WallClock.Instant(secondsSinceEpoch: 0)]),
                ]
            )
            #expect(try rows.nullableTextArray(0, 0) == ["a", nil, ""])
            #expect(throws: PostgresError.self) { try rows.textArray(0, 0) }
            #expect(throws: PostgresError.self) { try rows.int64Array(0, 1) }
            #expect(try rows.text(0, 2) == #"{NULL,"\\x41"}"#)
            #expect(try rows.text(0, 3) == #"{NULL,"1970-01-01 00:00:00+00"}"#)
        }
    }

    @Test func `two-dimensional arrays are refused`() async throws {
        try await withConnection { connection in
            let rows = try await connection.query(sql("SELECT ARRAY[ARRAY[1::bigint], ARRAY[2::bigint]]"))
            #expect(throws: PostgresError.self) { try rows.int64Array(0, 0) }
        }
    }

    @Test func `infinite moments are the ends of time in both directions`() async throws {
        try await withConnection { connection in
            let ends: [WallClock.Instant] = [
                WallClock.Instant(microsecondsSinceEpoch: .min), WallClock.Instant(microsecondsSinceEpoch: .max),
            ]
            let rows = try await connection.query(
                sql("SELECT '-infinity'::timestamptz, 'infinity'::timestamptz, $1::text, $2::text"),
                [.timestamp(ends[0]), .timestamp(ends[1])]
            )
            #expect(try rows.timestamp(0, 0) == ends[0])
            #expect(try rows.timestamp(0, 1) == ends[1])
            #expect(try rows.text(0, 2) == "-infinity")
            #expect(try rows.text(0, 3) == "infinity")
        }
    }

    @Test func `a value of another type is named in the error`() async throws {
        try await withConnection { connection in
            let rows = try await connection.query(sql("SELECT 1.5::numeric AS amount, NULL::bigint AS gone"))
            let wrong = #expect(throws: PostgresError.self) { try rows.int64(0, 0) }
            #expect(wrong?.code == .decoding)
            #expect(wrong?.description.contains("amount") == true)
            let null = #expect(throws: PostgresError.self) { try rows.int64(0, 1) }
            #expect(null?.description.contains("null") == true)
            #expect(throws: PostgresError.self) { try rows.column(named: "missing") }
            #expect(try rows.column(named: "gone") == 1)
        }
    }

    @Test func `narrow numbers are read as wide ones, names and enums as text`() async throws {
        try await withConnection { connection in
            try await connection.execute("CREATE TYPE pg_temp.mood AS ENUM ('glad')")
            let rows = try await connection.query(
                sql("SELECT 1::smallint, 2::integer, 1.5::real, 'n'::name, 'glad'::pg_temp.mood, '[1]'::json")
            )
            #expect(try rows.int32(0, 0) == 1)
            #expect(try rows.int64(0, 0) == 1)
            #expect(try rows.int64(0, 1) == 2)
            #expect(try rows.double(0, 2) == 1.5)
            #expect(try rows.text(0, 3) == "n")
            #expect(try rows.text(0, 4) == "glad")
            #expect(try rows.text(0, 5) == "[1]")
        }
    }

    @Test func `bytes are read without a copy`() async throws {
        try await withConnection { connection in
            let rows = try await connection.query(sql("SELECT g, 'token-' || g FROM generate_series(1::bigint, 3) g"))
            #expect(try rows.int64Column(0) == [1, 2, 3])
            let lengths = try rows.indices.map { try rows.withBytes($0, 1) { $0.count } }
            #expect(lengths == [7, 7, 7])
            var arena: [UInt8] = []
            for row in rows.indices { try rows.appendBytes(row, 1, to: &arena) }
            #expect(arena == Array("token-1token-2token-3".utf8))
        }
    }

    @Test func `a cell that does not exist stops the process`() async {
        await #expect(processExitsWith: .failure) {
            try await withEmptyDatabase { database in
                let rows = try await database.connect().query(SQLStatement(name: "none", text: "SELECT 1 LIMIT 0"))
                _ = rows.isNull(0, 0)
            }
        }
    }

    private func withConnection(_ body: (PostgresConnection) async throws -> Void) async throws {
        try await withEmptyDatabase { database in try await body(database.connect()) }
    }
}
