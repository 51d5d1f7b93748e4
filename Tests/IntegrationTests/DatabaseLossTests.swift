import PealRuntime
import Postgres
import ProviderSimulator
import PushCore
import TestSupport
import Testing

/// A database that goes away in the middle of a campaign. The worker lives on, and
/// mostly waits: for the lease of what the database forgot.
@Suite(.serialized) struct DatabaseLossTests {
    private static var options: SimulatorOptions {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 50
        options.apns.streamsAfterAcceptance = 50
        options.fcm.maximumConcurrentStreams = 50
        return options
    }

    @Test(.timeLimit(.minutes(4)), arguments: ["resend", "unknown"])
    func `a campaign survives connections that are cut again and again`(onDoubt: String) async throws {
        try await withPipeline(Self.options) { pipeline in
            try await pipeline.addDevices(8_000)
            let job = try await pipeline.send { $0.onDoubt = onDoubt }
            try await pipeline.withWorker { _ in
                for accepted in stride(from: 1_000, through: 6_000, by: 1_000) {
                    #expect(await pipeline.simulator.ledger.waitUntilAccepted(accepted, upTo: .seconds(60)))
                    try await pipeline.fixture.terminateOthers()
                }
                try await pipeline.waitUntilCompleted(job, upTo: .seconds(90))
            }
            try await pipeline.expectExactCounts(job)
            #expect(try await pipeline.status(job).count("accepted") == 8_000)
            #expect(pipeline.tokensSeenTwice == 0, "the worker lives, so nothing is in doubt")
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a campaign survives a restart of the database`() async throws {
        try await withPipelineOnServer(Self.options) { pipeline, server in
            try await pipeline.addDevices(6_000)
            let job = try await pipeline.send()
            try await pipeline.withWorker { _ in
                #expect(await pipeline.simulator.ledger.waitUntilAccepted(1_500, upTo: .seconds(60)))
                let again = try await server.restart(pipeline)
                try await again.waitUntilCompleted(job, upTo: .seconds(90))
                try await again.expectExactCounts(job)
                #expect(try await again.status(job).count("accepted") == 6_000)
                #expect(again.tokensSeenTwice == 0, "the worker lives, so nothing is in doubt")
            }
        }
    }

    /// Commits of a campaign's flushes may be lost with the server: results and marks together, never one of them.
    @Test(.timeLimit(.minutes(4)), arguments: ["resend", "unknown"])
    func `promise 1: the count adds up after a crash of the database`(onDoubt: String) async throws {
        try await withPipelineOnServer(Self.options) { pipeline, server in
            try await pipeline.addDevices(6_000)
            let job = try await pipeline.send { $0.onDoubt = onDoubt }
            try await pipeline.withWorker { _ in
                #expect(await pipeline.simulator.ledger.waitUntilAccepted(1_500, upTo: .seconds(60)))
                let again = try await server.crash(pipeline)
                try await again.fixture.expectAccounts()
                try await again.waitUntilCompleted(job, upTo: .seconds(90))
                try await again.expectExactCounts(job)
                let status = try await again.status(job)
                #expect(status.count("accepted") + status.count("unknown") == 6_000)
                if onDoubt == "unknown" { #expect(again.tokensSeenTwice == 0) }
            }
        }
    }
}
