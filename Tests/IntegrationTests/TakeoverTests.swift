import Glibc
import PealRuntime
import Postgres
import ProviderSimulator
import PushCore
import TestSupport
import Testing

/// Leases that really end, by the server's clock: these tests mostly wait.
@Suite struct TakeoverTests {
    private static var options: SimulatorOptions {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 100
        options.apns.streamsAfterAcceptance = 20
        options.fcm.maximumConcurrentStreams = 20
        return options
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 3: another worker takes over from a killed one when the lease ends`() async throws {
        try await withPipeline(Self.options) { pipeline in
            try await pipeline.addDevices(3_000)
            let job = try await pipeline.send()
            try await withPeal(["worker"], environment: pipeline.environment()) { worker in
                #expect(await pipeline.simulator.ledger.waitUntilAccepted(500, upTo: .seconds(90)), "\(worker.output)")
                await worker.signal(SIGKILL)
                try await worker.expectExit(128 + SIGKILL)
            }
            try await pipeline.withWorker { _ in try await pipeline.waitUntilCompleted(job, upTo: .seconds(100)) }
            #expect(try await pipeline.status(job).count("accepted") == 3_000)
            #expect(pipeline.simulator.ledger.acceptedCountsByToken().count == 3_000)
            try await pipeline.expectExactCounts(job)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 4: a worker that slept longer than its lease sends to nobody twice who must not be`() async throws {
        try await withPipeline(Self.options) { pipeline in
            try await pipeline.addDevices(3_000)
            let job = try await pipeline.send { $0.onDoubt = "unknown" }
            try await withPeal(["worker"], environment: pipeline.environment()) { stale in
                #expect(await pipeline.simulator.ledger.waitUntilAccepted(500, upTo: .seconds(90)), "\(stale.output)")
                // Stopped between two transactions: an open one would keep its batch locked, not merely leased.
                try await wait(for: "a moment without a transaction") {
                    await stale.signal(SIGSTOP)
                    let open = try await pipeline.fixture.number(
                        """
                        SELECT count(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND application_name = 'peal worker' AND state <> 'idle'
                        """
                    )
                    if open > 0 { await stale.signal(SIGCONT) }
                    return open == 0
                }
                try await pipeline.withWorker { _ in try await pipeline.waitUntilCompleted(job, upTo: .seconds(100)) }
                let before = try await pipeline.status(job)
                await stale.signal(SIGCONT)
                try await stale.waitForOutput("The lease of a batch was lost")
                await stale.signal(SIGTERM)
                try await stale.expectExit(0)
                #expect(try await pipeline.status(job).summary == before.summary)
                #expect(before.count("accepted") + before.count("unknown") == 3_000, "\(before.summary)")
            }
            #expect(pipeline.tokensSeenTwice == 0)
            try await pipeline.expectExactCounts(job)
        }
    }
}
