import PealRuntime
import ProviderSimulator
import PushCore
import TestSupport
import Testing

extension CampaignTests {
    @Suite struct SteeringTests {
        /// A provider so slow that a campaign of 6,000 takes many seconds: 400 streams, half a second each.
        private static var options: SimulatorOptions {
            var options = SimulatorOptions()
            options.latencyMilliseconds = 500
            options.apns.streamsAfterAcceptance = 50
            options.fcm.maximumConcurrentStreams = 50
            return options
        }

        @Test(.timeLimit(.minutes(4)))
        func `promise 6: a pause stops within a second, and resume goes on exactly there`() async throws {
            try await withPipeline(Self.options) { pipeline in
                try await pipeline.addDevices(6_000)
                let job = try await pipeline.send()
                try await pipeline.withWorker { _ in
                    #expect(await pipeline.simulator.ledger.waitUntilAccepted(800, upTo: .seconds(60)))
                    try await pipeline.steer(job, .pause)
                    let count = try await expectSilence(pipeline, after: .seconds(1))
                    #expect(count < 6_000, "the campaign was over before it could be paused")
                    #expect(try await pipeline.status(job).state == "paused")
                    try await wait(for: "the answers on the wire to be counted") {
                        try await pipeline.status(job).count("accepted") == count
                    }
                    try await pipeline.fixture.expectAccounts()
                    pipeline.simulator.control.set { $0.latencyMilliseconds = 0 }
                    try await pipeline.steer(job, .resume)
                    try await pipeline.waitUntilCompleted(job)
                }
                #expect(pipeline.simulator.ledger.acceptedHistogram() == [1: 6_000])
                #expect(pipeline.tokensSeenTwice == 0)
                #expect(try await pipeline.status(job).count("accepted") == 6_000)
                try await pipeline.expectExactCounts(job)
            }
        }

        @Test(.timeLimit(.minutes(4)))
        func `promise 6: a cancel stops within a second, and what was on the wire is counted`() async throws {
            try await withPipeline(Self.options) { pipeline in
                try await pipeline.addDevices(6_000)
                let job = try await pipeline.send()
                try await pipeline.withWorker { _ in
                    #expect(await pipeline.simulator.ledger.waitUntilAccepted(800, upTo: .seconds(60)))
                    try await pipeline.steer(job, .cancel)
                    let count = try await expectSilence(pipeline, after: .seconds(1))
                    try await pipeline.waitUntilCompleted(job)
                    let status = try await pipeline.status(job)
                    #expect(status.state == "cancelled")
                    #expect(status.count("accepted") == count)
                    #expect(status.count("cancelled") == 6_000 - count)
                }
                #expect(pipeline.tokensSeenTwice == 0)
                try await pipeline.expectExactCounts(job)
            }
        }

        @Test(.timeLimit(.minutes(4)))
        func `promise 6: a job paused and resumed over and over goes to everyone once`() async throws {
            var options = Self.options
            options.latencyMilliseconds = 50
            try await withPipeline(options) { pipeline in
                try await pipeline.addDevices(6_000, ["ab", "ok:", "ab", "ok:", "f1250503", "first-unavailable:"])
                let sampler = try await AccountingSampler(pipeline.database)
                let sampling = Task { try await sampler.run() }
                let job = try await pipeline.send()
                try await pipeline.withWorker { _ in
                    for round in 0..<12 {
                        // Sooner or later after the resumption, sometimes at once.
                        _ = await pipeline.simulator.ledger.waitUntil(round / 2 * 600, upTo: .seconds(10))
                        try await pipeline.steer(job, .pause)
                        try await pipeline.steer(job, .resume)
                        try await pipeline.steer(job, .pause)
                        _ = await pipeline.simulator.ledger.wait(upTo: .milliseconds(50 * round)) { _ in false }
                        try await pipeline.steer(job, .resume)
                    }
                    try await pipeline.waitUntilCompleted(job)
                }
                sampler.stop()
                #expect(try await sampling.value > 20)
                #expect(pipeline.simulator.ledger.acceptedHistogram() == [1: 6_000])
                #expect(try await pipeline.status(job).count("accepted") == 6_000)
                try await pipeline.expectExactCounts(job)
            }
        }

        /// A second of grace, then two in which not one request may come. Returns how many messages came in all.
        private func expectSilence(_ pipeline: Pipeline, after grace: Duration) async throws -> Int {
            let ledger = pipeline.simulator.ledger
            // Not a wait for something that will happen: the time itself is what is promised.
            _ = await ledger.wait(upTo: grace) { _ in false }
            let count = ledger.totals.requests
            #expect(!(await ledger.waitUntil(count + 1, upTo: .seconds(2))), "a request after the grace")
            return ledger.totals.requests - ledger.totals.requests(to: .oauth)
        }
    }
}
