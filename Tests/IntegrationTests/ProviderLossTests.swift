import PealRuntime
import ProviderSimulator
import PushCore
import TestSupport
import Testing

extension CampaignTests {
    /// Connections to the providers that end in every way there is, in the middle of a campaign.
    @Suite struct ProviderLossTests {
        private static var options: SimulatorOptions {
            var options = SimulatorOptions()
            options.latencyMilliseconds = 50
            options.apns.streamsAfterAcceptance = 50
            options.fcm.maximumConcurrentStreams = 50
            return options
        }
        private static let ends: [SimulatorControl.Action] = [
            .drop(.reset), .goAway(GoAway(lastStream: .graceful)), .drop(.close), .settings(maxConcurrentStreams: 3),
            .goAway(GoAway(lastStream: .newest, errorCode: 11)), .drop(.reset),
        ]
        /// What these exclude is surely not processed, but it is in the simulator's ledger: it may be there twice.
        private static let excludingEnds: [SimulatorControl.Action] = [
            .goAway(GoAway(lastStream: .belowNewest(20), then: .closeNow)),
            .goAway(GoAway(lastStream: .zero, then: .closeNow)),
        ]

        @Test(.timeLimit(.minutes(4)), arguments: ["resend", "unknown"])
        func `promise 3: connections that end in every way leave one outcome each`(onDoubt: String) async throws {
            try await withPipeline(Self.options) { pipeline in
                try await pipeline.addDevices(6_000)
                let job = try await pipeline.send { $0.onDoubt = onDoubt }
                try await pipeline.withWorker { _ in
                    let ends = onDoubt == "unknown" ? Self.ends : Self.ends + Self.excludingEnds
                    for (step, end) in ends.enumerated() {
                        let count = (step + 1) * 500
                        #expect(await pipeline.simulator.ledger.waitUntil(count, upTo: .seconds(60)))
                        pipeline.simulator.control.perform(end)
                    }
                    try await pipeline.waitUntilCompleted(job, upTo: .seconds(120))
                }
                try await pipeline.expectExactCounts(job)
                let status = try await pipeline.status(job)
                #expect(status.count("accepted") + status.count("unknown") == 6_000, "\(status.byReason)")
                if onDoubt == "unknown" {
                    #expect(pipeline.tokensSeenTwice == 0)
                } else {
                    #expect(status.count("accepted") == 6_000, "\(status.byReason)")
                    #expect(pipeline.tokensSeenTwice <= 8 * 8 * 50)
                }
            }
        }
    }
}
