import Glibc
import Postgres
import PealRuntime
import ProviderSimulator
import PushCore
import Telemetry
import TestSupport
import Testing

@Suite struct SecrecyTests {
    @Test(.timeLimit(.minutes(4)))
    func `promise 12: a crash prints no memory`() async throws {
        try await withScratchDirectory { directory in
            try await withPeal(["simulate", "--directory", directory], environment: [:]) { peal in
                try await peal.waitForOutput("apns-production")
                await peal.signal(SIGILL)
                try await peal.expectExit(128 + SIGILL, upTo: .seconds(120))
                #expect(!peal.output.contains("crashed"), "\(peal.output)")
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 12: no token, payload, key or bearer in a log line or an error column`() async throws {
        try await withPipeline { pipeline in
            let words = [
                "ab", "ok:", "deadbeef", "unregistered:", "invalid-token:", "bad40002", "bad41301", "f1250500",
                "f125b10c",
                "first-silence:", "first-drop:", "c105e001", "badb0d05", "badb0d06", "body-html:", "invalid-field:",
                "fa11fa11", "0ff00003", "bad42902", "first-access-token-expired:", "f1250403", "ab", "ok:", "ab", "ok:",
            ]
            try await pipeline.addDevices(500, words)
            let capture = try LogCapture()
            let logger = Logger(level: .trace, output: capture.output)
            let jobs = [
                try await pipeline.send(content: Self.content) { $0.ttlSeconds = 6 },
                try await pipeline.send(from: "talk", content: Self.content) { $0.collapseID = Self.canary },
                try await pipeline.send(#"{"external_ids": ["user-1", "user-2", "user-3"]}"#, content: Self.content),
            ]
            try await pipeline.withWorker(logger: logger) { _ in
                for job in jobs { try await pipeline.waitUntilCompleted(job) }
                // Failures of another kind: of the credential, and of the database.
                pipeline.simulator.revokeAPNsKey(pipeline.simulator.keyID)
                pipeline.simulator.control.set { $0.oauth = .error("invalid_grant", description: "no") }
                pipeline.simulator.expireAccessTokens()
                let refused = try await pipeline.send(content: Self.content)
                try await pipeline.waitUntilCompleted(refused)
                try await pipeline.fixture.terminateOthers()
                let last = try await pipeline.send(#"{"external_ids": ["user-1"]}"#, content: Self.content)
                try await pipeline.waitUntilCompleted(last)
            }
            let log = capture.text
            for line in Self.lines { #expect(log.contains(line), "never logged, so not tested: \(line)") }
            for secret in try await secrets(pipeline) {
                #expect(!log.contains(secret), "in a log line: \(secret.prefix(12))…")
            }
            try await expectCleanColumns(pipeline)
        }
    }

    /// What a send says of itself at trace and above: connections, claims, messages, flushes, bearers, refusals.
    private static let lines = [
        "a database connection was opened", "Connected to the provider", "A connection to the provider ends",
        "A batch was claimed", "A message has its outcome", "token.hash", "Results were written",
        "A bearer is used from now on", "The provider refuses a credential",
    ]
    private static let canary = "canary-7f3a"
    private static let content =
        #"{"title": "canary-7f3a", "body": "canary-7f3a", "data": {"canary-7f3a": "canary-7f3a"}}"#

    /// What must not be told: tokens, payload, keys, and what bearers begin with.
    private func secrets(_ pipeline: Pipeline) async throws -> [String] {
        let rows = try await pipeline.fixture.query("SELECT token FROM peal.device")
        var secrets = try rows.indices.map { try rows.text($0, 0) }
        secrets += [Self.canary, Pipeline.masterKeyText, "eyJ", "ya29."]
        for pem in [pipeline.simulator.apnsKeyPEM, pipeline.simulator.serviceAccountJSON] {
            secrets += pem.split(whereSeparator: { "\n\\".contains($0) }).filter { $0.count >= 40 }.map {
                String($0.prefix(40))
            }
        }
        return secrets
    }

    /// The columns that hold words about what went wrong hold no token and no payload.
    private func expectCleanColumns(_ pipeline: Pipeline) async throws {
        let found = try await pipeline.fixture.number(
            """
            WITH word (text) AS (
                SELECT failure FROM peal.job
                UNION ALL SELECT state_reason FROM peal.credential
                UNION ALL SELECT reason FROM peal.result
                UNION ALL SELECT reason FROM peal.job_stat
                UNION ALL SELECT disabled_reason FROM peal.device
            )
            SELECT count(*) FROM word AS w
            WHERE w.text ~ 'canary-7f3a|eyJ|ya29|PRIVATE KEY'
                OR EXISTS (SELECT FROM peal.device AS d WHERE position(d.token IN w.text) > 0)
            """
        )
        #expect(found == 0)
    }
}
