import Postgres
import PushCore
import TestSupport
import Testing

/// What `peal.judge_tokens` makes of what providers say about the tokens of a credential.
@Suite struct TokenVerdictTests {
    private func with(
        _ body: (_ judge: (Int32, [Int64], Int32) async throws -> [Bool], _ connection: PostgresConnection) async throws
            -> Void
    ) async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            func run(_ text: String, _ parameters: PostgresParameters = .none) async throws -> PostgresRows {
                try await connection.query(SQLStatement(name: "verdict_test", text: text), parameters)
            }
            _ = try await run("INSERT INTO peal.app (slug) VALUES ('shop')")
            let rows = try await run(
                """
                INSERT INTO peal.credential (app_id, provider, environment, key_id, team_id, topic, sealed)
                SELECT id, 'apns', 'production', 'K', 'T', 'com.example', '\\x00' FROM peal.app RETURNING id
                """
            )
            let credential = CredentialID(try rows.int64(0, 0))
            try await body(
                { accepted, suspects, others in
                    let rows = try await run(
                        """
                        SELECT j.is_proven, j.is_high, j.has_turned
                        FROM peal.credential AS c, peal.judge_tokens($1, c.updated_at, $2, $3, $4) AS j
                        """,
                        [.credential(credential), .int32(accepted), .int64s(suspects), .int32(others)]
                    )
                    return try (0..<3).map { try rows.bool(0, $0) }
                },
                connection
            )
        }
    }

    @Test func `nothing is believed before a push was accepted, and the turn is told once`() async throws {
        try await with { (judge, _) async throws in
            #expect(try await judge(0, [1], 0) == [false, true, true])
            #expect(try await judge(0, [2], 0) == [false, true, false])
            #expect(try await judge(0, [], 5) == [false, true, false])
            #expect(try await judge(10, [3], 0) == [true, false, true])
            #expect(try await judge(10, [], 3) == [true, false, false])
        }
    }

    @Test func `a device counts once, however often it is sent to`() async throws {
        try await with { (judge, _) async throws in
            #expect(try await judge(1, [7], 0) == [true, true, true])
            #expect(try await judge(1, [7], 0) == [true, true, false])
            #expect(try await judge(1, [7], 0) == [true, false, true])
            for _ in 0..<50 { #expect(try await judge(0, [7], 0) == [true, false, false]) }
        }
    }

    @Test func `a share that rises is seen, whatever was accepted long ago`() async throws {
        try await with { (judge, connection) async throws in
            #expect(try await judge(1_000_000, [], 0) == [true, false, false])
            var believed = 0
            for device in 1...200 where try await judge(0, [Int64(device)], 0) == [true, false, false] { believed += 1 }
            #expect(believed < 40)
            let rows = try await connection.query(
                SQLStatement(
                    name: "verdict_test",
                    text: "SELECT accepted + cardinality(suspects) FROM peal.token_verdict"
                )
            )
            #expect(try rows.int32(0, 0) <= 101)
        }
    }

    @Test func `other settings begin anew`() async throws {
        try await with { (judge, connection) async throws in
            #expect(try await judge(1_000, [], 0) == [true, false, false])
            func set(_ change: String) async throws {
                let text = "UPDATE peal.credential SET \(change)"
                _ = try await connection.query(SQLStatement(name: "verdict_test", text: text))
            }
            try await set("verified_at = now(), updated_at = now()")
            #expect(try await judge(0, [1], 0) == [true, false, false])
            try await set("topic = 'com.example.other'")
            #expect(try await judge(0, [1], 0) == [false, true, true])
        }
    }

    @Test func `what a worker saw with other settings changes nothing, and is not believed`() async throws {
        try await with { (judge, connection) async throws in
            func run(_ text: String) async throws -> PostgresRows {
                try await connection.query(SQLStatement(name: "verdict_test", text: text))
            }
            /// A report by a worker that read the credential before its settings were changed.
            func judgeStale(_ accepted: Int, _ suspects: String) async throws -> [Bool] {
                let rows = try await run(
                    """
                    SELECT j.is_proven, j.is_high, j.has_turned
                    FROM peal.credential AS c, peal.judge_tokens(
                        c.id, c.updated_at - interval '1 microsecond', \(accepted), '{\(suspects)}', 1
                    ) AS j
                    """
                )
                return try (0..<3).map { try rows.bool(0, $0) }
            }
            func row() async throws -> String {
                try await run("SELECT v::text FROM peal.token_verdict AS v").text(0, 0)
            }
            #expect(try await judge(1_000, [], 0) == [true, false, false])
            _ = try await run("UPDATE peal.credential SET topic = 'com.example.other', updated_at = clock_timestamp()")
            let new = try await row()
            #expect(try await judgeStale(500, "") == [false, false, false])
            #expect(try await judgeStale(0, "1,2,3") == [false, false, false])
            #expect(try await row() == new)
            // A probe changes no settings: what is on its way then still counts.
            #expect(try await judge(1, [], 0) == [true, false, false])
            _ = try await run("UPDATE peal.credential SET verified_at = now(), updated_at = clock_timestamp()")
            #expect(try await judgeStale(99, "4") == [true, false, false])
            #expect(try await judge(0, [5], 0) == [true, false, false])
        }
    }
}
