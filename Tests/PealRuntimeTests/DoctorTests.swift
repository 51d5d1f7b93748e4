import PealRuntime
import Postgres
import PushCore
import TestSupport
import Testing

@Suite struct DoctorTests {
    private func examine(_ variables: [String: String]) async -> [String: DoctorFinding] {
        let findings = await Doctor(settings: Settings(variables: variables), countsResults: true).examine()
        return Dictionary(findings.map { ($0.area, $0) }) { first, second in
            first.verdict == .ok ? second : first
        }
    }

    @Test func `a sound database has no problem`() async throws {
        try await withDatabase { database in
            let key = String(repeating: "0f", count: 32)
            let findings = await examine(["PEAL_DATABASE_URL": database.connectionString, "PEAL_MASTER_KEY": key])
            #expect(findings.values.filter { $0.verdict == .problem } == [])
            #expect(findings["schema"]?.verdict == .ok)
            #expect(findings["accounting"]?.verdict == .ok)
        }
    }

    @Test func `a credential under which tokens look dead is named until a push is accepted`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            func run(_ text: String) async throws {
                _ = try await connection.query(SQLStatement(name: "doctor_test", text: text))
            }
            try await run("INSERT INTO peal.app (slug) VALUES ('shop')")
            try await run(
                """
                INSERT INTO peal.credential (app_id, provider, environment, key_id, team_id, topic, sealed)
                SELECT id, 'apns', 'production', 'K', 'T', 'com.example', '\\x00' FROM peal.app
                """
            )
            try await run("SELECT peal.judge_tokens(id, updated_at, 0, '{1}', 0) FROM peal.credential")
            let held = await examine(["PEAL_DATABASE_URL": database.connectionString])["dead tokens"]
            #expect(held?.verdict == .warning)
            #expect(held?.finding.contains("of app shop was accepted yet") == true)
            #expect(held?.advice.contains("environment") == true)
            try await run("SELECT peal.judge_tokens(id, updated_at, 9, '{}', 0) FROM peal.credential")
            let proven = await examine(["PEAL_DATABASE_URL": database.connectionString])["dead tokens"]
            #expect(proven == nil)
        }
    }

    @Test func `a pooler is noticed, and what is missing with it`() async throws {
        try await withDatabase { database in
            try await withPgBouncer(database) { pooled in
                let alone = await examine(["PEAL_DATABASE_URL": pooled.connectionString])
                #expect(alone["pooler"]?.verdict == .warning)
                #expect(alone["pooler"]?.advice.contains("PEAL_DIRECT_DATABASE_URL") == true)
                #expect(alone["schema"]?.verdict == .ok)
                let both = await examine([
                    "PEAL_DATABASE_URL": pooled.connectionString,
                    "PEAL_DIRECT_DATABASE_URL": database.connectionString,
                ])
                #expect(both["pooler"]?.verdict == .ok)
                #expect(both["direct database"]?.verdict == .ok)
                let wrong = await examine([
                    "PEAL_DATABASE_URL": pooled.connectionString,
                    "PEAL_DIRECT_DATABASE_URL": pooled.connectionString,
                ])
                #expect(wrong["direct database"]?.verdict == .problem)
            }
        }
    }

    @Test func `settings that a worker would not begin with are problems`() async throws {
        let findings = await examine(["PEAL_RETENTION_DAYS": "soon", "PEAL_CA_FILE": "/nowhere/ca.pem"])
        #expect(findings["environment"]?.verdict == .problem)
        #expect(findings["environment"]?.finding.contains("PEAL_RETENTION_DAYS") == true)
        #expect(findings["certificates"]?.verdict == .problem)
        #expect(findings["certificates"]?.advice.contains("PEAL_CA_FILE") == true)
    }

    @Test func `a database without the schema says to migrate`() async throws {
        try await withEmptyDatabase { database in
            let findings = await examine(["PEAL_DATABASE_URL": database.connectionString])
            #expect(findings["schema"]?.verdict == .problem)
            #expect(findings["schema"]?.advice == "run: peal migrate")
        }
    }

    @Test func `what migrate would refuse is not advised`() async throws {
        let stories = [
            "INSERT INTO peal.schema_version (number, name, is_breaking) VALUES (9001, 'later', true)",
            """
            INSERT INTO peal.schema_version (number, name, is_breaking)
            SELECT max(number) + 1, 'later', true FROM peal.schema_version
            """,
            "DELETE FROM peal.schema_version WHERE number = 3",
            "UPDATE peal.schema_version SET name = 'other' WHERE number = 3",
        ]
        for story in stories {
            try await withDatabase { database in
                let connection = try await database.connect()
                _ = try await connection.query(SQLStatement(name: "doctor_test", text: story))
                let schema = await examine(["PEAL_DATABASE_URL": database.connectionString])["schema"]
                #expect(schema?.verdict == .problem, "\(story)")
                #expect(schema?.advice.contains("update this binary") == true, "\(story): \(schema?.advice ?? "")")
            }
        }
    }

    @Test func `connections of every user are counted, whoever asks`() async throws {
        try await withDatabase { database in
            let role = "doctor_\(database.name)"
            let others = try await [
                database.connect(), database.connect(), database.connect(), database.connect(), database.connect(),
            ]
            try await others[0].execute("CREATE ROLE \(role) LOGIN IN ROLE peal_worker")
            let url = database.connectionString.replacing("postgres@", with: "\(role)@")
            let findings = await Doctor(
                settings: Settings(variables: ["PEAL_DATABASE_URL": url]),
                countsResults: false
            ).examine()
            #expect(findings.contains { $0.finding.hasSuffix("user \(role)") }, "\(findings)")
            let used = findings.map(\.finding).first { $0.hasSuffix("connections are in use") }
            let count = try #require(used?.split(separator: " ").first.flatMap { Int($0) })
            #expect(count > others.count)
            try await others[0].execute("DROP ROLE \(role)")
        }
    }

    @Test func `workers of other databases of the server are not counted`() async throws {
        try await withDatabase { database in
            try await withDatabase { other in
                let worker = try await PostgresConnection.connect(
                    PostgresConfiguration(other.connectionString, applicationName: "peal worker")
                )
                let here = await examine(["PEAL_DATABASE_URL": database.connectionString])["workers"]
                #expect(here?.finding == "0 connections of workers, no job is waiting")
                let there = await examine(["PEAL_DATABASE_URL": other.connectionString])["workers"]
                #expect(there?.finding == "1 connection of workers, no job is waiting")
                await worker.close()
            }
        }
    }

    @Test func `a database that is down, a bad key and a missing file are each named`() async throws {
        let down = await examine(["PEAL_DATABASE_URL": "host=/nonexistent", "PEAL_CA_FILE": "/nonexistent/ca.pem"])
        #expect(down["database"]?.verdict == .problem)
        #expect(down["database"]?.advice == "start the server ('peal up' brings its own), or check PEAL_DATABASE_URL")
        #expect(down["certificates"]?.verdict == .problem)
        let unset = await examine(["PEAL_DATABASE_UR": "x"])
        #expect(unset["database"]?.verdict == .problem)
        #expect(unset["environment"]?.advice == "did you mean PEAL_DATABASE_URL?")
    }
}
