import Postgres
import PushCore
import TestSupport
import Testing

@Suite struct CopyTests {
    private let copy = SQLStatement(
        name: "copy_all",
        text: "COPY all_types (a, b, c, d, e, f, g, h, i, j, k) FROM STDIN (FORMAT binary)"
    )

    @Test func `rows that begin like others keep their own number and what follows it`() async throws {
        try await withTable { connection in
            let template = PostgresCopyTemplate(columnCount: 11) { row in
                row.append(int16: 7)
                row.append(int32: -2)
            } after: { row in
                row.append(text: "like the others")
            }
            var buffer = PostgresCopyBuffer()
            for number in [Int64.min, 0, .max] {
                buffer.startRow(like: template, int64: number)
                let bytes: [UInt8] = number == 0 ? [] : [1, 2]
                buffer.append(bytesOrNull: bytes.span)
                for _ in 0..<6 { buffer.appendNull() }
            }
            #expect(buffer.rowCount == 3)
            #expect(try await connection.copyIn(copy, rows: buffer) == 3)
            let rows = try await connection.query(sql("SELECT all_types::text FROM all_types ORDER BY c"))
            #expect(try rows.text(0, 0) == #"(7,-2,-9223372036854775808,"like the others","\\x0102",,,,,,)"#)
            #expect(try rows.text(1, 0) == #"(7,-2,0,"like the others",,,,,,,)"#)
            #expect(try rows.text(2, 0) == #"(7,-2,9223372036854775807,"like the others","\\x0102",,,,,,)"#)
        }
    }

    @Test func `all types are copied in, with nulls and empty arrays`() async throws {
        try await withTable { connection in
            var buffer = PostgresCopyBuffer()
            #expect(buffer.isEmpty)
            buffer.startRow(columnCount: 11)
            buffer.append(int16: -1)
            buffer.append(int32: -2)
            buffer.append(int64: -3)
            buffer.append(text: "ü")
            buffer.append(bytes: [0, 255])
            buffer.append(uuid: UUIDValue(high: 1, low: 2))
            buffer.append(timestamp: WallClock.Instant(secondsSinceEpoch: 1))
            buffer.append(bool: true)
            buffer.append(int64s: [5, 6])
            buffer.append(texts: [])
            buffer.append(jsonb: Array(#"{"a":1}"#.utf8))
            buffer.startRow(columnCount: 11)
            for _ in 0..<11 { buffer.appendNull() }
            #expect(buffer.rowCount == 2)
            let copied = try await connection.copyIn(copy, rows: buffer)
            #expect(copied == 2)
            let rows = try await connection.query(sql("SELECT all_types::text FROM all_types ORDER BY a"))
            #expect(
                try rows.text(0, 0)
                    == #"(-1,-2,-3,ü,"\\x00ff",00000000-0000-0001-0000-000000000002,"1970-01-01 00:00:01+00",t,"{5,6}",{},"{""a"": 1}")"#
            )
            #expect(try rows.text(1, 0) == "(,,,,,,,,,,)")
        }
    }

    @Test func `a buffer is reused, and an empty one copies nothing`() async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            try await connection.execute("CREATE TABLE t (a bigint, b double precision)")
            let copy = sql("COPY t FROM STDIN (FORMAT binary)")
            var buffer = PostgresCopyBuffer()
            for round in 0..<3 {
                buffer.removeAll()
                for value in 0..<(round * 20_000) {
                    buffer.startRow(columnCount: 2)
                    buffer.append(int64: Int64(value))
                    buffer.append(double: 0.5)
                }
                let copied = try await connection.copyIn(copy, rows: buffer)
                #expect(copied == round * 20_000)
            }
            let sum = try await connection.query(sql("SELECT sum(a)::bigint FROM t")).int64(0, 0)
            #expect(sum == 19_999 * 20_000 / 2 + 39_999 * 40_000 / 2)
        }
    }

    @Test func `a copy within a transaction goes with it`() async throws {
        try await withTable { connection in
            try await connection.execute("CREATE TABLE t (a bigint)")
            let copy = sql("COPY t FROM STDIN (FORMAT binary)")
            var buffer = PostgresCopyBuffer()
            buffer.startRow(columnCount: 1)
            buffer.append(int64: 1)
            let rows = buffer
            await #expect(throws: CancellationError.self) {
                try await connection.transaction { connection in
                    try await connection.copyIn(copy, rows: rows)
                    throw CancellationError()
                }
            }
            let count = try await connection.query(sql("SELECT count(*) FROM t")).int64(0, 0)
            #expect(count == 0)
        }
    }

    @Test func `rows that the server refuses are an error, and nothing is stored`() async throws {
        try await withTable { connection in
            var buffer = PostgresCopyBuffer()
            buffer.startRow(columnCount: 1)
            buffer.append(int16: 1)
            let error = await #expect(throws: PostgresError.self) { try await connection.copyIn(copy, rows: buffer) }
            #expect(error?.sqlState == "22P04")
            #expect(error?.statementName == "copy_all")
            #expect(connection.condition == .idle)
            let count = try await connection.query(sql("SELECT count(*) FROM all_types")).int64(0, 0)
            #expect(count == 0)
        }
    }

    @Test(arguments: [
        "COPY nowhere FROM STDIN", "COPY all_types TO STDOUT", "SELECT 1", "COPY all_types FROM nonsense",
    ])
    func `what is no copy into a table is an error`(text: String) async throws {
        try await withTable { connection in
            let error = await #expect(throws: PostgresError.self) {
                try await connection.copyIn(sql(text), rows: PostgresCopyBuffer())
            }
            #expect(error?.code == .misuse || error?.sqlState != nil)
        }
    }

    @Test func `a copy that waits for a lock is stopped at its deadline`() async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            let holder = try await database.connect()
            try await connection.execute("CREATE TABLE t (a bigint)")
            var buffer = PostgresCopyBuffer()
            // More than the socket's buffers hold, so that we wait while sending.
            for value in 0..<2_000_000 {
                buffer.startRow(columnCount: 1)
                buffer.append(int64: Int64(value))
            }
            let rows = buffer
            try await holder.transaction { holder in
                try await holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
                let error = await #expect(throws: PostgresError.self) {
                    try await connection.copyIn(
                        sql("COPY t FROM STDIN (FORMAT binary)"),
                        rows: rows,
                        deadline: .milliseconds(100)
                    )
                }
                #expect(error?.code == .deadline)
            }
            let count = try await connection.query(sql("SELECT count(*) FROM t")).int64(0, 0)
            #expect(count == 0)
        }
    }

    @Test func `a copy whose rows wait for a trigger is stopped in the middle`() async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            try await connection.execute(
                """
                CREATE TABLE t (a bigint);
                CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
                CREATE TRIGGER slow BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION slow();
                """
            )
            var buffer = PostgresCopyBuffer()
            for value in 0..<2_000_000 {
                buffer.startRow(columnCount: 1)
                buffer.append(int64: Int64(value))
            }
            let rows = buffer
            let error = await #expect(throws: PostgresError.self) {
                try await connection.copyIn(
                    sql("COPY t FROM STDIN (FORMAT binary)"),
                    rows: rows,
                    deadline: .milliseconds(200)
                )
            }
            #expect(error?.code == .deadline)
            let count = try await connection.query(sql("SELECT count(*) FROM t")).int64(0, 0)
            #expect(count == 0)
        }
    }

    private func withTable(_ body: (PostgresConnection) async throws -> Void) async throws {
        try await withEmptyDatabase { database in
            let connection = try await database.connect()
            try await connection.execute(
                """
                CREATE TABLE all_types (
                    a smallint, b integer, c bigint, d text, e bytea, f uuid, g timestamptz, h boolean,
                    i bigint[], j text[], k jsonb
                )
                """
            )
            try await body(connection)
        }
    }
}
