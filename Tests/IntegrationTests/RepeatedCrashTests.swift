import Glibc
import PealRuntime
import Postgres
import ProviderSimulator
import PushCore
import TestSupport
import Testing

extension CampaignTests {
    @Suite struct RepeatedCrashTests {
        private static let streamsInFlight = 2 * 4 * 50
        private static let kills = 6

        /// Killed once while the audience is frozen, then again and again wherever it is.
        @Test(.timeLimit(.minutes(4)))
        func `promise 3: a worker killed again and again loses nobody and repeats few`() async throws {
            var options = SimulatorOptions()
            options.latencyMilliseconds = 20
            options.apns.streamsAfterAcceptance = 50
            options.fcm.maximumConcurrentStreams = 50
            try await withPipeline(options) { pipeline in
                try await pipeline.addDevices(20_000, ["ab", "ok:", "ab", "ok:", "f1250503", "first-unavailable:"])
                let job = try await pipeline.send()
                for kill in 0..<Self.kills {
                    try await withPeal(["worker"], environment: pipeline.environment()) { worker in
                        if kill == 0 {
                            try await wait(for: "the job to be claimed") {
                                try await pipeline.fixture.text(
                                    "SELECT state FROM peal.job WHERE id = $1",
                                    [.job(job)]
                                ) == "running"
                            }
                        } else {
                            #expect(await pipeline.simulator.ledger.waitUntil(kill * 2_500, upTo: .seconds(60)))
                        }
                        await worker.signal(SIGKILL)
                        try await worker.expectExit(128 + SIGKILL)
                    }
                    try await pipeline.waitForSessionsToEnd()
                    try await pipeline.fixture.expectAccounts()
                    try await pipeline.endLeases()
                }
                try await withPeal(["worker"], environment: pipeline.environment()) { _ in
                    try await pipeline.waitUntilCompleted(job, upTo: .seconds(120))
                }
                try await pipeline.expectExactCounts(job)
                #expect(try await pipeline.status(job).count("accepted") == 20_000)
                let repeated = pipeline.simulator.ledger.acceptedCountsByToken().values.reduce(0) { $0 + $1 - 1 }
                #expect(repeated <= Self.kills * (Self.streamsInFlight + 5_000))
            }
        }
    }
}
