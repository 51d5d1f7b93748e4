import PealRuntime
import ProviderSimulator
import PushCore
import Telemetry
import TestSupport
import Testing

@Suite struct BlameTests {
    @Test(.timeLimit(.minutes(4)))
    func `promise 8: faults of payload and header leave every device alone`() async throws {
        try await withPipeline { pipeline in
            let words = [
                "bad41301", "bad40001", "bad40005", "bad40009", "invalid-field:", "too-big:", "invalid-generic:",
            ]
            try await pipeline.addDevices(140, words + ["ab", "ok:", "ab"])
            let job = try await pipeline.send { $0.ttlSeconds = 20 }
            try await pipeline.withWorker { _ in try await pipeline.waitUntilCompleted(job) }
            #expect(try await pipeline.fixture.number("SELECT count(disabled_at) FROM peal.device") == 0)
            let status = try await pipeline.status(job)
            #expect(status.count("rejected") >= 84, "\(status.byReason)")
            try await pipeline.expectExactCounts(job)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 8: a refused credential fails the send and leaves every device alone`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(1_000)
            pipeline.simulator.revokeAPNsKey(pipeline.simulator.keyID)
            pipeline.simulator.control.set { $0.oauth = .error("invalid_grant", description: "Invalid JWT Signature.") }
            let job = try await pipeline.send()
            let log = try LogCapture()
            let logger = Logger(level: .warning, output: log.output)
            try await pipeline.withWorker(logger: logger) { _ in try await pipeline.waitUntilCompleted(job) }
            #expect(log.text.contains("Invalid JWT Signature. Check project"), "\(log.text)")
            let status = try await pipeline.status(job)
            #expect(status.count("rejected") == 1_000, "\(status.byReason)")
            #expect(try await pipeline.fixture.number("SELECT count(disabled_at) FROM peal.device") == 0)
            let refused = try await pipeline.fixture.number(
                "SELECT count(*) FROM peal.credential WHERE state = 'refused' AND state_reason <> ''"
            )
            #expect(refused == 2)
            try await pipeline.expectExactCounts(job)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 8: dead tokens are disabled on the provider's word, and the next send leaves them out`() async throws
    {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(200, ["ab", "ok:", "deadbeef", "unregistered:"])
            // Registered after the provider last found the token invalid, so it is alive.
            try await pipeline.addDevices(10, ["dead01d0"])
            let first = try await pipeline.send()
            try await pipeline.withWorker { _ in
                try await pipeline.waitUntilCompleted(first)
                try await wait(for: "the dead devices to be disabled") {
                    try await pipeline.fixture.number("SELECT count(disabled_at) FROM peal.device") == 100
                }
                #expect(try await pipeline.status(first).count("rejected") == 110)
                let reasons = try await pipeline.fixture.text(
                    "SELECT string_agg(DISTINCT disabled_reason, ',' ORDER BY disabled_reason) FROM peal.device"
                )
                #expect(reasons == "UNREGISTERED,Unregistered")
                let second = try await pipeline.send()
                try await pipeline.waitUntilCompleted(second)
                #expect(try await pipeline.status(second).audience == 110)
                try await pipeline.expectExactCounts(second)
            }
            let dead = pipeline.simulator.ledger.countsByToken().filter {
                $0.key.hasPrefix("deadbeef") || $0.key.hasPrefix("unregistered:")
            }
            #expect(dead.count == 100)
            #expect(dead.values.allSatisfy { $0 == 1 }, "a dead token was sent to again")
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 8: when every token looks dead at once the channel is held and nobody is disabled`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(500, ["bad40002"])
            let job = try await pipeline.send { $0.ttlSeconds = 5 }
            try await pipeline.withWorker { _ in try await pipeline.waitUntilCompleted(job) }
            let disabled = try await pipeline.fixture.number("SELECT count(disabled_at) FROM peal.device")
            #expect(disabled == 0)
            try await pipeline.expectExactCounts(job)
        }
    }
}
