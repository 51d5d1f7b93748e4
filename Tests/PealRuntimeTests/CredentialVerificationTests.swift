import OpenSSL
import PealRuntime
import Postgres
import ProviderSimulator
import PushCore
import Telemetry
import TestSupport
import Testing

@Suite struct CredentialVerificationTests {
    private struct Rig {
        let simulator: ProviderSimulator
        let connection: PostgresConnection
        let app: AppID
        let sealingKey: SealingKey

        var credentials: Credentials { Credentials(connection) }

        func addAPNs(team: String? = nil, environment: String = "production") async throws {
            let role: ProviderRole = environment == "production" ? .apnsProduction : .apnsSandbox
            let credential = try APNsCredential(
                key: Array(simulator.apnsKeyPEM.utf8),
                source: "key.p8",
                keyID: simulator.keyID,
                teamID: team ?? simulator.teamID,
                topic: "com.example.shop",
                environment: environment
            )
            let endpoint = simulator.endpoint(role).url
            try await credentials.add(credential, endpoint: endpoint, to: app, sealingKey: sealingKey)
        }

        func addFCM() async throws {
            let json = Array(simulator.serviceAccountJSON.utf8)
            let credential = try FCMCredential(json: json, source: "account.json")
            let endpoint = simulator.endpoint(.fcm).url
            try await credentials.add(credential, endpoint: endpoint, to: app, sealingKey: sealingKey)
        }

        func verify(trusting: Bool = true) async throws -> (rows: [[Cell]], areAllAccepted: Bool) {
            try await CredentialVerification(
                connection,
                sealingKey: sealingKey,
                caFile: trusting ? simulator.caFile : nil,
                logger: Logger(level: .error)
            ).run(app)
        }

        func states() async throws -> [String] {
            try await credentials.list(slug: "shop").map { row in
                row[Credentials.columns.firstIndex(of: "state") ?? 0] == "active" ? "active" : "refused"
            }
        }
    }

    private func withRig(_ body: (Rig) async throws -> Void) async throws {
        let simulator = try ProviderSimulator.start()
        defer { simulator.stop() }
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let key = try SealingKey(bytes: [UInt8](repeating: 7, count: 32))
            try await body(Rig(simulator: simulator, connection: connection, app: app, sealingKey: key))
        }
    }

    @Test func `credentials that the providers take are verified, and nothing is delivered to FCM`() async throws {
        try await withRig { rig in
            try await rig.addAPNs()
            try await rig.addAPNs(environment: "sandbox")
            try await rig.addFCM()
            let result = try await rig.verify()
            #expect(result.areAllAccepted, "\(result.rows)")
            #expect(result.rows.count == 3)
            #expect(try await rig.states() == ["active", "active", "active"])
        }
    }

    @Test func `a certificate that is not trusted is named with its host and what to set`() async throws {
        try await withRig { rig in
            try await rig.addAPNs()
            try await rig.addFCM()
            let result = try await rig.verify(trusting: false)
            #expect(!result.areAllAccepted)
            #expect(result.rows.map { $0[1] } == ["apns", "fcm"])
            for row in result.rows {
                #expect(row[3] == "undecided")
                let advice = row[5].plainText
                for part in ["no TLS connection", "certificate of", "PEAL_CA_FILE"] {
                    #expect(advice.contains(part), "\(advice)")
                }
            }
            #expect(try await rig.states() == ["active", "active"])
            #expect(rig.simulator.ledger.connections().count == 2, "another attempt would end no better")
        }
    }

    @Test func `a key under another team is refused, with the settings to look at`() async throws {
        try await withRig { rig in
            try await rig.addAPNs(team: "OTHERTEAM1")
            let result = try await rig.verify()
            #expect(!result.areAllAccepted)
            let row = try #require(result.rows.first)
            #expect(row[1...4] == ["apns", "production", "refused", "InvalidProviderToken"])
            #expect(row[5].plainText.contains("team id OTHERTEAM1"))
            #expect(try await rig.states() == ["refused"])
        }
    }
}
