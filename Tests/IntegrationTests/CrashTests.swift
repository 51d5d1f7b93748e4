import Delivery
import Glibc
import Postgres
import PealRuntime
import ProviderSimulator
import PushCore
import TestSupport
import Testing

extension CampaignTests {
    /// Workers that are killed or frozen in the middle of a campaign.
    @Suite struct CrashTests {
        /// Few streams, so that what is in flight is little: four connections to APNs, ten to FCM.
        private static var options: SimulatorOptions {
            var options = SimulatorOptions()
            options.latencyMilliseconds = 20
            options.apns.streamsAfterAcceptance = 50
            options.fcm.maximumConcurrentStreams = 50
            return options
        }
        private static let streamsInFlight = (4 + 10) * 50
        /// What a lane may permit ahead of its streams, see `AheadBudget`.
        private static let oneFlush = LaneSettings.campaign.aheadLimit

        @Test(.timeLimit(.minutes(4)), arguments: ["resend", "unknown"])
        func `promise 3: after kill -9 each recipient has one outcome, and the doubt is bounded`(
            onDoubt: String
        ) async throws {
            try await withPipeline(Self.options) { pipeline in
                try await pipeline.addDevices(20_000)
                let job = try await pipeline.send { $0.onDoubt = onDoubt }
                try await withPeal(["worker"], environment: pipeline.environment()) { worker in
                    #expect(
                        await pipeline.simulator.ledger.waitUntilAccepted(6_000, upTo: .seconds(90)),
                        "\(worker.output)"
                    )
                    try await expectBounded(worker)
                    await worker.signal(SIGKILL)
                    try await worker.expectExit(128 + SIGKILL)
                }
                try await pipeline.waitForSessionsToEnd()
                try await pipeline.fixture.expectAccounts()
                let doubt = try await pipeline.recipientsInDoubt(job)
                #expect(doubt <= Self.streamsInFlight + Self.oneFlush)
                try await pipeline.endLeases()
                try await withPeal(["worker"], environment: pipeline.environment()) { worker in
                    try await pipeline.waitUntilCompleted(job, upTo: .seconds(120))
                    try await expectBounded(worker)
                }
                try await pipeline.expectExactCounts(job)
                let status = try await pipeline.status(job)
                #expect(status.audience == 20_000)
                #expect(status.count("accepted") + status.count("unknown") == 20_000, "\(status.summary)")
                if onDoubt == "unknown" {
                    #expect(pipeline.tokensSeenTwice == 0)
                    #expect(status.count("unknown") <= doubt, "\(status.byReason)")
                } else {
                    #expect(pipeline.tokensSeenTwice <= doubt)
                    #expect(status.count("accepted") == 20_000)
                    #expect(pipeline.simulator.ledger.acceptedCountsByToken().count == 20_000, "tokens reached")
                }
            }
        }

        /// Cases 116 and 118: what a worker takes does not grow with the audience.
        private func expectBounded(_ worker: PealProcess) async throws {
            let peak = try #require(await worker.figure("VmHWM"))
            #expect(peak < 256 << 10, "\(peak) KiB at the peak")
            let threads = try #require(await worker.figure("Threads"))
            #expect(threads < 64)
        }

        @Test(.timeLimit(.minutes(4)))
        func `promise 4: a worker that wakes up after its lease changes nothing`() async throws {
            try await expectNoChange { stale, pipeline in
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
            }
        }

        @Test(.timeLimit(.minutes(4)))
        func `promise 4: a worker that stops inside a transaction holds up nobody and changes nothing`() async throws {
            try await expectNoChange { stale, pipeline in try await stopInsideTransaction(stale, pipeline) }
        }

        /// Stops a worker in the middle of a campaign, lets another one do the rest, and wakes it.
        private func expectNoChange(
            whenStoppedBy stop: (PealProcess, Pipeline) async throws -> Void
        ) async throws {
            try await withPipeline(Self.options) { pipeline in
                try await pipeline.addDevices(6_000)
                let job = try await pipeline.send()
                try await withPeal(["worker"], environment: pipeline.environment()) { stale in
                    #expect(
                        await pipeline.simulator.ledger.waitUntilAccepted(1_000, upTo: .seconds(90)),
                        "\(stale.output)"
                    )
                    try await stop(stale, pipeline)
                    try await pipeline.endLeases()
                    try await withPeal(["worker"], environment: pipeline.environment()) { _ in
                        try await pipeline.waitUntilCompleted(job, upTo: .seconds(90))
                    }
                    let before = try await results(pipeline, job)
                    await stale.signal(SIGCONT)
                    try await stale.waitForOutput("The lease of a batch was lost")
                    await stale.signal(SIGTERM)
                    try await stale.expectExit(0)
                    #expect(try await results(pipeline, job) == before)
                }
                let status = try await pipeline.status(job)
                #expect(status.count("accepted") == 6_000, "\(status.summary)")
                try await pipeline.expectExactCounts(job)
            }
        }

        /// Stops a worker whose flush has written its batches and not committed: it is held up at its counts meanwhile.
        private func stopInsideTransaction(_ worker: PealProcess, _ pipeline: Pipeline) async throws {
            let blocker = try await pipeline.database.connect()
            // A small flush is one statement, which ends by itself: then another one is waited for.
            try await wait(for: "a large flush that waits for the lock") {
                try await blocker.execute("BEGIN; LOCK TABLE peal.stat_delta IN EXCLUSIVE MODE")
                var isLarge: Int64 = -1
                try await wait(for: "a flush that waits for the lock") {
                    isLarge = try await pipeline.fixture.number(
                        """
                        SELECT coalesce(max(EXISTS (
                            -- Its COPY has written to a day of results.
                            SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
                            WHERE l.pid = a.pid AND c.relname LIKE 'result\\_2%'
                        )::integer), -1) FROM pg_stat_activity AS a
                        WHERE datname = current_database() AND application_name = 'peal worker'
                            AND wait_event_type = 'Lock' AND query LIKE '-- Writes a flush%'
                        """
                    )
                    return isLarge >= 0
                }
                if isLarge == 0 { try await blocker.execute("ROLLBACK") }
                return isLarge == 1
            }
            await worker.signal(SIGSTOP)
            try await blocker.execute("COMMIT")
            await blocker.close()
            try await wait(for: "the flush to wait for its worker") {
                try await pipeline.fixture.number(
                    """
                    SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = 'peal worker'
                        AND state = 'idle in transaction'
                    """
                ) > 0
            }
        }

        /// Every result row of a job and where it stands, as one value.
        private func results(_ pipeline: Pipeline, _ job: JobID) async throws -> String? {
            try await pipeline.fixture.text(
                "SELECT md5(string_agg(r.tableoid::text || r.ctid::text || r::text, ',' ORDER BY r.device_id, r.ctid)) "
                    + "FROM peal.result AS r WHERE r.job_id = $1",
                [.job(job)]
            )
        }

        @Test(.timeLimit(.minutes(4)))
        func `two worker processes share a campaign and reach each token once`() async throws {
            try await withPipeline(Self.options) { pipeline in
                try await pipeline.addDevices(30_000)
                let environment = pipeline.environment(logLevel: "debug")
                var job: JobID?
                try await withPeal(["worker"], environment: environment) { one in
                    try await withPeal(["worker"], environment: environment) { other in
                        for worker in [one, other] { try await worker.waitForOutput("worker started") }
                        let sent = try await pipeline.send()
                        for worker in [one, other] { try await worker.waitForOutput("Connected to the provider") }
                        try await pipeline.waitUntilCompleted(sent, upTo: .seconds(90))
                        job = sent
                    }
                }
                #expect(pipeline.simulator.ledger.acceptedHistogram() == [1: 30_000])
                #expect(pipeline.tokensSeenTwice == 0)
                try await pipeline.expectExactCounts(#require(job))
            }
        }
    }
}
