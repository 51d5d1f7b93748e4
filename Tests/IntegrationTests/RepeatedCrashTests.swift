import Delivery
import Glibc
import PealRuntime
import Postgres
import ProviderSimulator
import PushCore
import TestSupport
import Testing

extension CampaignTests {
    @Suite struct RepeatedCrashTests {
        // Four connections to APNs, ten to FCM.
        private static let streamsInFlight = (4 + 10) * 50
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
                var doubts = 0
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
                    let doubt = try await pipeline.recipientsInDoubt(job)
                    #expect(doubt <= Self.streamsInFlight + LaneSettings.campaign.aheadLimit)
                    doubts += doubt
                    try await pipeline.endLeases()
                }
                try await withPeal(["worker"], environment: pipeline.environment()) { _ in
                    try await pipeline.waitUntilCompleted(job, upTo: .seconds(120))
                }
                try await pipeline.expectExactCounts(job)
                #expect(try await pipeline.status(job).count("accepted") == 20_000)
                let repeated = pipeline.simulator.ledger.acceptedCountsByToken().values.reduce(0) { $0 + $1 - 1 }
                #expect(repeated <= doubts)
            }
        }

        /// A slow provider, 100,000 recipients, and a kill in the middle.
        @Test(.timeLimit(.minutes(4)))
        func `promise 3, case 116: a large campaign is killed once, in bounded memory, and nobody is sent to again`()
            async throws
        {
            var options = SimulatorOptions()
            options.latencyMilliseconds = 200
            try await withPipeline(options) { pipeline in
                try await pipeline.addDevices(100_000, ["ab"])
                let job = try await pipeline.send()
                try await withPeal(["worker"], environment: pipeline.environment()) { worker in
                    let isHalfDone = await pipeline.simulator.ledger.waitUntilAccepted(40_000, upTo: .seconds(90))
                    #expect(isHalfDone, "\(worker.output)")
                    #expect(try #require(await worker.figure("VmHWM")) < 256 * 1_024)
                    await worker.signal(SIGKILL)
                    try await worker.expectExit(128 + SIGKILL)
                }
                try await pipeline.waitForSessionsToEnd()
                let recorded = try await tokensWithResult(pipeline, job)
                let doubt = try await pipeline.recipientsInDoubt(job)
                #expect(doubt <= 4 * 1_000 + LaneSettings.campaign.aheadLimit)
                try await pipeline.endLeases()
                try await withPeal(["worker"], environment: pipeline.environment()) { worker in
                    try await pipeline.waitUntilCompleted(job, upTo: .seconds(120))
                    #expect(try #require(await worker.figure("VmHWM")) < 256 * 1_024)
                }
                try await pipeline.expectExactCounts(job)
                #expect(try await pipeline.status(job).count("accepted") == 100_000)
                let counts = pipeline.simulator.ledger.acceptedCountsByToken()
                #expect(recorded.count > 30_000)
                #expect(recorded.allSatisfy { counts[$0] == 1 }, "recorded and sent to again")
                let repeated = counts.values.reduce(0) { $0 + $1 - 1 }
                #expect(repeated <= doubt)
            }
        }

        private func tokensWithResult(_ pipeline: Pipeline, _ job: JobID) async throws -> [String] {
            let rows = try await pipeline.fixture.query(
                """
                SELECT d.token FROM peal.result AS r
                JOIN peal.device AS d ON d.id = r.device_id AND d.app_id = (SELECT j.app_id FROM peal.job AS j WHERE j.id = $1)
                WHERE r.job_id = $1
                """,
                [.job(job)]
            )
            return try rows.indices.map { try rows.text($0, 0) }
        }
    }
}
