import PealRuntime
import Postgres
import PushCore
import TestSupport
import Testing

/// The import does in sets what `peal.register_device` does one by one: both must come to the same devices.
@Suite struct DeviceImportAgainstRegistrationTests {
    private struct Row {
        var token: String
        var installation: String?
        var voip: String?
        var user: String
    }

    /// A small generator with a seed, so that a failure can be seen again.
    private struct Dice: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state ^ (state >> 29)
        }
    }

    /// Rows in which no token and no installation comes twice, as tokens and installations wander between devices.
    private func makeRows(_ dice: inout Dice) -> [Row] {
        let tokens = (0..<8).shuffled(using: &dice).prefix(Int.random(in: 1...5, using: &dice))
        var installations = (0..<8).shuffled(using: &dice)
        return tokens.map { token in
            let installation = Int.random(in: 0..<4, using: &dice) == 0 ? nil : "inst-\(installations.removeLast())"
            let voip = Int.random(in: 0..<2, using: &dice) == 0 ? nil : Int.random(in: 0..<4, using: &dice)
            return Row(
                token: "aa\(Hex.encode([UInt8(token)]))",
                installation: installation,
                voip: voip.map { "bb\(Hex.encode([UInt8($0)]))" },
                user: "user-\(Int.random(in: 0..<5, using: &dice))"
            )
        }
    }

    private func devices(_ app: String, _ connection: PostgresConnection) async throws -> [String] {
        let rows = try await connection.query(
            SQLStatement(
                name: "test",
                text: """
                    SELECT concat_ws('|', d.token, coalesce(d.installation_id, '-'), coalesce(d.voip_token, '-'), d.external_id)
                    FROM peal.device AS d JOIN peal.app AS a ON a.id = d.app_id WHERE a.slug = $1 ORDER BY 1
                    """
            ),
            [.text(app)]
        )
        return try rows.indices.map { row throws(PostgresError) in try rows.text(row, 0) }
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func `an import comes to the same devices as registrations one by one`(seed: UInt64) async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let imported = try await Apps(connection).create(slug: "imported", name: nil)
            try await Apps(connection).create(slug: "registered", name: nil)
            var dice = Dice(state: seed)
            for round in 0..<40 {
                let rows = makeRows(&dice)
                var csv = "channel,token,installation_id,voip_token,external_id\n"
                for row in rows {
                    csv += "ios,\(row.token),\(row.installation ?? ""),\(row.voip ?? ""),\(row.user)\n"
                    let device = JSONLine.object([
                        ("channel", "ios"), ("token", .text(row.token)), ("installation_id", Cell(row.installation)),
                        ("voip_token", Cell(row.voip)), ("external_id", .text(row.user)),
                    ])
                    _ = try await connection.query(
                        SQLStatement(name: "test", text: "SELECT peal.register_device('registered', $1)"),
                        [.jsonb(device)]
                    )
                }
                let file = try TemporaryFile(csv)
                _ = try await DeviceImport(app: imported, connection: connection).run(path: file.path) { _, _, _ in }
                let expected = try await devices("registered", connection)
                let found = try await devices("imported", connection)
                try #require(found == expected, "round \(round): \(csv)")
            }
        }
    }
}
