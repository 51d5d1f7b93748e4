import OpenSSL
import PealRuntime
import Postgres
import PushCore
import TestSupport
import Testing

@Suite struct AppsTests {
    @Test func `an app is created, listed and changed`() async throws {
        try await withDatabase { database in
            let apps = Apps(try await database.connect())
            let id = try await apps.create(slug: "shop", name: "The Shop")
            #expect(try await apps.find("shop") == id)
            try await apps.set("shop", ["weight=300", "default_ttl=60", "on_credential_failure=hold", "name="])
            let row = try #require(try await apps.list().first)
            let expected: [Cell] = ["shop", .null, 300, 60, "hold", 0]
            #expect(Array(row.dropLast()) == expected)
        }
    }

    @Test(arguments: ["", "Shop", "-shop", "my shop", "shöp", String(repeating: "a", count: 64)])
    func `a malformed slug is refused with what a slug is`(slug: String) async throws {
        try await withDatabase { database in
            let apps = Apps(try await database.connect())
            let error = await #expect(throws: CommandError.self) { try await apps.create(slug: slug, name: nil) }
            #expect(error?.status == .refused)
            #expect(error?.advice.contains("1 to 63") == true)
        }
    }

    @Test func `a slug that is taken, and one that is unknown, are refused`() async throws {
        try await withDatabase { database in
            let apps = Apps(try await database.connect())
            try await apps.create(slug: "shop", name: nil)
            let taken = await #expect(throws: CommandError.self) { try await apps.create(slug: "shop", name: nil) }
            #expect(taken?.status == .refused)
            let unknown = await #expect(throws: CommandError.self) { try await apps.find("shpo") }
            #expect(unknown?.advice.contains("did you mean 'shop'?") == true)
        }
    }

    @Test(arguments: [
        ("weigth=3", "did you mean weight?"), ("weight=0", "1 to 10000"), ("weight=many", "1 to 10000"),
        ("default_ttl=2419201", "0 to 2419200"), ("on_credential_failure=retry", "fail or hold"),
        ("weight", "key=value"),
    ])
    func `a wrong setting is refused by name`(assignment: String, text: String) async throws {
        try await withDatabase { database in
            let apps = Apps(try await database.connect())
            try await apps.create(slug: "shop", name: nil)
            let error = await #expect(throws: CommandError.self) { try await apps.set("shop", [assignment]) }
            #expect(error?.description.contains(text) == true, "\(String(describing: error))")
        }
    }
}

@Suite struct CredentialsTests {
    private func makeKey() throws -> SealingKey {
        try SealingKey(bytes: [UInt8](repeating: 7, count: 32))
    }

    private func makeAPNs(topic: String = "com.example.shop") throws -> APNsCredential {
        try APNsCredential(
            key: try SigningKey.makePEM(.es256),
            source: "key.p8",
            keyID: "ABC123DEFG",
            teamID: "DEF123GHIJ",
            topic: topic,
            environment: "sandbox"
        )
    }

    @Test func `promise 12: a key rests sealed, and opens only with its master key and in its own row`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let credentials = Credentials(connection)
            let credential = try makeAPNs()
            let id = try await credentials.add(credential, endpoint: nil, to: app, sealingKey: try makeKey())
            let stored = SQLStatement(name: "test", text: "SELECT sealed FROM peal.credential")
            let sealed = try await connection.query(stored).bytes(0, 0)
            #expect(!String(decoding: sealed, as: UTF8.self).contains("PRIVATE"))
            let associated = CredentialSeal.associatedData(app: app, credential: id)
            #expect(try makeKey().open(sealed, associated: associated) == credential.pem)
            let elsewhere = CredentialSeal.associatedData(app: AppID(app.value + 1), credential: id)
            #expect(throws: OpenSSLError.self) { try makeKey().open(sealed, associated: elsewhere) }
            #expect(try await credentials.openFailures(slug: nil, sealingKey: try makeKey()).isEmpty)
            let other = try SealingKey(bytes: [UInt8](repeating: 8, count: 32))
            #expect(try await credentials.openFailures(slug: nil, sealingKey: other).map(\.id) == [id.value])
        }
    }

    @Test func `a key that opens none of the stored credentials seals no other`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let other = try await Apps(connection).create(slug: "news", name: nil)
            let credentials = Credentials(connection)
            let wrong = try SealingKey(bytes: [UInt8](repeating: 8, count: 32))
            let id = try await credentials.add(try makeAPNs(), endpoint: nil, to: app, sealingKey: try makeKey())
            let error = await #expect(throws: CommandError.self) {
                try await credentials.add(try makeAPNs(), endpoint: nil, to: other, sealingKey: wrong)
            }
            #expect(error?.status == .refused)
            #expect(error?.what == "the configured master key opens none of the 1 credential of this database")
            #expect(error?.advice.contains("peal credential remove") == true)
            #expect(try await credentials.list(slug: nil).count == 1)
            try await credentials.remove(id, of: app)
            try await credentials.add(try makeAPNs(), endpoint: nil, to: other, sealingKey: wrong)
            #expect(try await credentials.list(slug: nil).count == 1)
        }
    }

    @Test func `a removed credential leaves no key behind, and is not removed for another app`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let other = try await Apps(connection).create(slug: "news", name: nil)
            let credentials = Credentials(connection)
            let id = try await credentials.add(try makeAPNs(), endpoint: nil, to: app, sealingKey: try makeKey())
            await #expect(throws: CommandError.self) { try await credentials.remove(id, of: other) }
            try await credentials.remove(id, of: app)
            #expect(try await credentials.list(slug: "shop").isEmpty)
            let left = SQLStatement(name: "test", text: "SELECT octet_length(sealed) FROM peal.credential")
            #expect(try await connection.query(left).int32(0, 0) == 0)
        }
    }

    @Test func `a topic of calls is refused, so that its suffix is never there twice`() {
        let error = #expect(throws: CommandError.self) { try makeAPNs(topic: "com.example.talk.voip") }
        #expect(error?.advice.contains("com.example.talk;") == true)
    }

    @Test(arguments: ["com.example shop", "com.example\r\nauthorization: x", "", "com.éxample"])
    func `a topic that cannot stand in a header is refused`(topic: String) {
        #expect(throws: CommandError.self) { try makeAPNs(topic: topic) }
    }

    @Test func `a key that is none says what it is`() {
        let error = #expect(throws: CommandError.self) {
            try APNsCredential(
                key: Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8),
                source: "cert.pem",
                keyID: "ABC123DEFG",
                teamID: "DEF123GHIJ",
                topic: "com.example.shop",
                environment: "production"
            )
        }
        #expect(error?.status == .refused)
        #expect(error?.what.contains("it is a certificate") == true)
        #expect(error?.location == "cert.pem")
    }
}

@Suite struct FCMCredentialTests {
    private func account(_ changes: [String: JSONValue?] = [:], escaped: Bool = false) throws -> [UInt8] {
        var key = String(decoding: try SigningKey.makePEM(.rs256), as: UTF8.self)
        if escaped { key = key.split(separator: "\n", omittingEmptySubsequences: false).joined(separator: "\\n") }
        var object = JSONObject()
        object["type"] = "service_account"
        object["project_id"] = "shop-1"
        object["private_key"] = .string(key)
        object["client_email"] = "push@shop-1.iam.gserviceaccount.com"
        object["token_uri"] = "https://oauth2.googleapis.com/token"
        for (key, value) in changes { object[key] = value }
        return Array(JSONValue.object(object).compactText.utf8)
    }

    @Test(arguments: [false, true])
    func `a service account is taken, also when its line breaks are the two characters`(escaped: Bool) throws {
        let credential = try FCMCredential(json: try account(escaped: escaped), source: "account.json")
        #expect(credential.projectID == "shop-1")
        #expect(credential.clientEmail == "push@shop-1.iam.gserviceaccount.com")
    }

    @Test(
        arguments: [
            (["project_id": nil], "project_id is missing"), (["project_id": ""], "project_id is empty"),
            (["project_id": "a/b"], "cannot stand in a path"), (["client_email": 3], "client_email must be text"),
            (["type": "authorized_user"], "type is 'authorized_user'"), (["project_info": "x"], "google-services.json"),
            (["installed": "x"], "OAuth client"),
            // Case 95: a key of the interface that Google has switched off.
            (["server_key": "AAAA"], "former FCM interface"),
            (["private_key": "-----BEGIN PRIVATE KEY-----\nAAAA\n"], "private_key"),
            (["token_uri": "http://example.com/token"], "token_uri"),
        ] as [([String: JSONValue?], String)]
    )
    func `a service account with a fault is refused by its member`(
        changes: [String: JSONValue?],
        text: String
    ) throws {
        let json = try account(changes)
        let error = #expect(throws: CommandError.self) { try FCMCredential(json: json, source: "account.json") }
        #expect(error?.status == .refused)
        #expect(error?.description.contains(text) == true, "\(String(describing: error))")
    }

    @Test func `a file that is no JSON is named as such`() {
        let key = Array("-----BEGIN PRIVATE KEY-----\n".utf8)
        let error = #expect(throws: CommandError.self) { try FCMCredential(json: key, source: "key.p8") }
        #expect(error?.what.contains("it is a PEM key, as APNs has it") == true && error?.location == "key.p8")
        let text = #expect(throws: CommandError.self) { try FCMCredential(json: Array("x".utf8), source: "a.json") }
        #expect(text?.description.contains("not JSON") == true && text?.location == "a.json")
    }

    @Test func `a damaged key is refused when it is added, not at the first message`() throws {
        var json = try account()
        // In the middle of the key's base64.
        let quarter = json.count / 2
        json.removeSubrange(quarter..<quarter + 10)
        #expect(throws: CommandError.self) { try FCMCredential(json: json, source: "account.json") }
    }

    @Test(arguments: [
        ("https://localhost:8443", "https://localhost:8443"), ("https://[::1]:8443/", "https://[::1]:8443"),
        ("https://api.example.com", "https://api.example.com"),
    ])
    func `an endpoint is a host, with or without a port`(text: String, stored: String) throws {
        #expect(try CredentialEndpoint.checked(text, named: "--endpoint") == stored)
    }

    @Test(arguments: [
        "http://localhost:8443", "localhost:8443", "https://", "https://host:0", "https://host:70000",
        "https://host:x", "https://host/path", "https://user@host", "https://ho st",
    ])
    func `an endpoint of another form is refused`(text: String) {
        let error = #expect(throws: CommandError.self) { try CredentialEndpoint.checked(text, named: "--endpoint") }
        #expect(error?.location == "--endpoint")
    }
}
