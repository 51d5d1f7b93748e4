import OpenSSL
import ProviderSimulator
import Testing

@Suite struct OAuthTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var name: String
        var changes: [String: String?] = [:]
        var issuedAt = Fixture.now
        var lifetime: Int64 = 3600
        var error: String
        var description: String

        var testDescription: String { name }
    }

    static let refused: [Row] = [
        Row(name: "account", changes: ["iss": "\"x@y.z\""], error: "invalid_grant", description: "account not found"),
        Row(name: "no iat", changes: ["iat": nil], error: "invalid_grant", description: "iat"),
        Row(
            name: "two hours old",
            issuedAt: Fixture.now - 7200,
            error: "invalid_grant",
            description: "reasonable timeframe"
        ),
        Row(
            name: "ten minutes ahead",
            issuedAt: Fixture.now + 600,
            error: "invalid_grant",
            description: "reasonable timeframe"
        ),
        Row(name: "too long", lifetime: 3601, error: "invalid_grant", description: "60 minutes"),
        Row(name: "no scope", changes: ["scope": nil], error: "invalid_scope", description: "scope"),
        Row(
            name: "audience",
            changes: ["aud": "\"https://x.y/token\""],
            error: "invalid_grant",
            description: "audience"
        ),
    ]

    @Test(arguments: refused)
    func `an assertion with a fault is refused`(row: Row) throws {
        let fixture = try Fixture()
        let assertion = try fixture.assertion(row.changes, issuedAt: row.issuedAt, lifetime: row.lifetime)
        let answer = try fixture.requestToken(try fixture.connect(.oauth), assertion)
        #expect(answer.status == 400)
        #expect(answer.text.contains("\"error\":\"\(row.error)\""), "\(answer.text)")
        #expect(answer.text.contains(row.description), "\(answer.text)")
    }

    @Test func `a good assertion gives a token, five minutes of clock difference included`() throws {
        let fixture = try Fixture { $0.oauth.expiresInSeconds = 1 }
        for issuedAt in [Fixture.now, Fixture.now + 300] {
            let answer = try fixture.requestToken(
                try fixture.connect(.oauth),
                try fixture.assertion(issuedAt: issuedAt)
            )
            #expect(answer.status == 200)
            #expect(answer.text.contains("\"expires_in\":1,\"token_type\":\"Bearer\""))
        }
        #expect(fixture.simulator.ledger.totals.requests(to: .oauth) == 2)
    }

    @Test func `a signature by another key is refused`() throws {
        let fixture = try Fixture()
        let pem = String(decoding: try SigningKey.makePEM(.rs256), as: UTF8.self)
        let answer = try fixture.requestToken(try fixture.connect(.oauth), try fixture.assertion(pem: pem))
        #expect(answer.text.contains("Invalid JWT Signature"))
    }

    @Test func `what is not a token is a bad request`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect(.oauth)
        #expect(try fixture.requestToken(client, "abc").text.contains("invalid_request"))
        #expect(try client.answer("POST", "/token", body: "a=b").text.contains("unsupported_grant_type"))
        #expect(try client.answer("POST", "/tokens", body: "a=b").status == 404)
        #expect(try client.answer("GET", "/token").status == 405)
    }

    @Test func `an unknown scope gives an id token only`() throws {
        let fixture = try Fixture()
        let assertion = try fixture.assertion(["scope": "\"https://www.googleapis.com/auth/drive\""])
        let answer = try fixture.requestToken(try fixture.connect(.oauth), assertion)
        #expect(answer.status == 200)
        #expect(answer.text.contains("id_token"))
        #expect(!answer.text.contains("access_token"))
    }

    @Test func `faults of the endpoint are scripted`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect(.oauth)
        fixture.simulator.control.set {
            $0.oauth = .error("invalid_grant", description: "Invalid JWT: reasonable timeframe")
        }
        #expect(try fixture.requestToken(client, "x").text.contains("invalid_grant"))
        fixture.simulator.control.set { $0.oauth = .status(503) }
        #expect(try fixture.requestToken(client, "x").status == 503)
        fixture.simulator.control.set { $0.oauth = .idTokenOnly }
        #expect(try fixture.requestToken(client, "x").text.contains("id_token"))
        fixture.simulator.control.reset()
        #expect(try fixture.requestToken(client, try fixture.assertion()).status == 200)
    }

    @Test func `a revoked key gives no more tokens`() throws {
        let fixture = try Fixture()
        let json = fixture.simulator.serviceAccountJSON
        let id = try #require(json.firstMatch(of: /"private_key_id": "([0-9a-f]{40})"/)?.output.1)
        fixture.simulator.revokeServiceAccountKey(String(id))
        let answer = try fixture.requestToken(try fixture.connect(.oauth), try fixture.assertion())
        #expect(answer.text.contains("account not found"))
    }
}
