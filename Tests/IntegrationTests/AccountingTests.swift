import Postgres
import PealRuntime
import ProviderSimulator
import PushCore
import Synchronization
import TestSupport
import Testing

extension CampaignTests {
    @Suite struct AccountingTests {
        /// Of 20 devices: 16 that are accepted, one dead, one that throttles, one that fails at first, one refused.
        private static let words =
            Array(repeating: ["ab", "ok:"], count: 8).flatMap(\.self)
            + ["deadbeef", "f1250429", "first-unavailable:", "bad41301"]

        @Test(.timeLimit(.minutes(4)))
        func `promise 1: the count adds up in every committed state of a mixed run`() async throws {
            var options = SimulatorOptions()
            options.latencyMilliseconds = 20
            try await withPipeline(options) { pipeline in
                try await pipeline.addDevices(20_000, Self.words)
                let sampler = try await AccountingSampler(pipeline.database)
                let sampling = Task { try await sampler.run() }
                let jobs = try await mixedRun(pipeline)
                sampler.stop()
                let samples = try await sampling.value
                #expect(samples > 20, "the run was looked at too rarely to mean anything")
                for job in jobs { try await pipeline.expectExactCounts(job) }
                try await expectOutcomes(pipeline, campaign: jobs[0])
            }
        }

        /// A campaign to all while devices go; a send to names of whom some do not exist; one that is cancelled on the way.
        private func mixedRun(_ pipeline: Pipeline) async throws -> [JobID] {
            let campaign = try await pipeline.send()
            let names = (19_901...20_100).map { #""user-\#($0)""# }.joined(separator: ",")
            let named = try await pipeline.send(#"{"external_ids": [\#(names)]}"#)
            let cancelled = try await pipeline.send(#"{"channels": ["ios"], "filter": {"tag.n": {"gt": 10000}}}"#)
            try await pipeline.withWorker { _ in
                #expect(await pipeline.simulator.ledger.waitUntilAccepted(1_000, upTo: .seconds(60)))
                // The newest have not been sent to yet: they are skipped when their batch is looked up.
                try await pipeline.fixture.query(
                    "SELECT peal.unregister_device('shop', jsonb_build_object('device_id', id)) FROM peal.device "
                        + "ORDER BY id DESC LIMIT 300"
                )
                try await pipeline.steer(cancelled, .cancel)
                for job in [named, cancelled, campaign] {
                    try await pipeline.waitUntilCompleted(job, upTo: .seconds(120))
                }
            }
            return [campaign, named, cancelled]
        }

        private func expectOutcomes(_ pipeline: Pipeline, campaign: JobID) async throws {
            let status = try await pipeline.status(campaign)
            #expect(status.audience == 20_000)
            #expect(status.remaining == 0)
            #expect(status.count("rejected") > 1_900, "\(status.byReason)")
            #expect(status.count("skipped") > 0, "\(status.byReason)")
            let retried = try await pipeline.fixture.number(
                "SELECT count(*) FROM peal.recipient_result WHERE job_id = $1 AND attempt > 1 AND outcome = 'accepted'",
                [.job(campaign)]
            )
            #expect(retried > 1_900, "accepted after a retry")
        }
    }
}

/// Asks `peal.check_accounting()` over and over on a connection of its own.
final class AccountingSampler: Sendable {
    private let connection: PostgresConnection
    private let isStopped = Mutex(false)

    init(_ database: TestDatabase) async throws {
        connection = try await database.connect()
    }

    /// Samples until stopped; returns how often it looked.
    func run() async throws -> Int {
        let check = SQLStatement(name: "test_check", text: "SELECT c::text FROM peal.check_accounting() AS c")
        var samples = 0
        while !isStopped.withLock({ $0 }) {
            let wrong = try await connection.query(check)
            for row in wrong.indices { Issue.record("sample \(samples): \(try wrong.text(row, 0))") }
            samples += 1
        }
        return samples
    }

    func stop() {
        isStopped.withLock { $0 = true }
    }
}
