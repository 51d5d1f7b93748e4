import Glibc
import Postgres
import PealRuntime
import ProviderSimulator
import PushCore
import TestSupport
import Testing

extension CampaignTests {
    @Suite struct ShutdownTests {
        private static var options: SimulatorOptions {
            var options = SimulatorOptions()
            options.latencyMilliseconds = 300
            options.apns.streamsAfterAcceptance = 50
            options.fcm.maximumConcurrentStreams = 50
            return options
        }

        @Test(.timeLimit(.minutes(4)))
        func `SIGTERM writes what was in flight and gives the rest back at once`() async throws {
            try await withPipeline(Self.options) { pipeline in
                try await pipeline.addDevices(6_000)
                let job = try await pipeline.send()
                try await withPeal(["worker"], environment: pipeline.environment()) { worker in
                    #expect(
                        await pipeline.simulator.ledger.waitUntilAccepted(600, upTo: .seconds(60)),
                        "\(worker.output)"
                    )
                    await worker.signal(SIGTERM)
                    try await worker.expectExit(0)
                }
                let status = try await pipeline.status(job)
                let totals = pipeline.simulator.ledger.totals
                #expect(
                    status.count("accepted") == totals.accepted - totals.requests(to: .oauth),
                    "all answers are results"
                )
                #expect(status.remaining == 6_000 - status.count("accepted"))
                try await expectNothingHeld(pipeline)
                pipeline.simulator.control.set { $0.latencyMilliseconds = 0 }
                try await pipeline.withWorker { _ in try await pipeline.waitUntilCompleted(job) }
                #expect(pipeline.simulator.ledger.acceptedHistogram() == [1: 6_000])
                #expect(pipeline.tokensSeenTwice == 0)
                try await pipeline.expectExactCounts(job)
            }
        }

        @Test(.timeLimit(.minutes(4)))
        func `a second SIGTERM does not wait for answers`() async throws {
            try await withPipeline { pipeline in
                pipeline.simulator.control.set(
                    rules: [Rule(.silence, role: .apnsProduction, skip: 10), Rule(.silence, role: .fcm, skip: 10)]
                )
                try await pipeline.addDevices(200)
                let job = try await pipeline.send { $0.onDoubt = "unknown" }
                try await withPeal(["worker", "--drain", "600"], environment: pipeline.environment()) { worker in
                    try await wait(for: "the answers to be results") {
                        try await pipeline.status(job).count("accepted") == 20
                    }
                    await worker.signal(SIGTERM)
                    try await worker.waitForOutput("stopping")
                    await worker.signal(SIGTERM)
                    try await worker.expectExit(0)
                }
                try await expectNothingHeld(pipeline)
                try await pipeline.expectExactCounts(job)
                #expect(try await pipeline.status(job).count("accepted") == 20)
            }
        }

        private func expectNothingHeld(_ pipeline: Pipeline) async throws {
            let batches = try await pipeline.fixture.number("SELECT count(*) FROM peal.batch WHERE lease_until > now()")
            #expect(batches == 0, "leases that nobody uses")
        }
    }
}
