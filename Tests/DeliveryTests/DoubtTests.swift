import Delivery
import Postgres
import ProviderSimulator
import PushCore
import Testing

/// What a worker left in doubt that died: how much it is, and that everyone says the same about it.
@Suite struct DoubtTests {
    /// How a job ends while batches of a dead worker wait.
    enum End: String, CaseIterable, Sendable {
        case cancelled, expired
    }

    private func end(_ job: JobID, _ end: End, _ rig: DeliveryRig) async throws {
        switch end {
        case .cancelled: _ = try await rig.query("SELECT peal.cancel_job($1)", [.job(job)])
        case .expired:
            _ = try await rig.query("UPDATE peal.job SET expires_at = now() WHERE id = $1", [.job(job)])
            _ = try await rig.query("UPDATE peal.batch SET expires_at = now() WHERE job_id = $1", [.job(job)])
        }
    }

    private func sweep(_ job: JobID, _ rig: DeliveryRig) async throws -> Bool {
        try await rig.wait {
            _ = try await rig.query("SELECT peal.sweep_ended_jobs(10, 50000)")
            return try await rig.remaining(job) == 0
        }
    }

    @Test(arguments: End.allCases, ["resend", "unknown"])
    func `promise 3: the sweep and the next worker say the same of what a dead worker left`(
        _ end: End,
        onDoubt: String
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1_000))
            for isSwept in [true, false] {
                let job = try await rig.addJob("shop", devices: devices) { $0.onDoubt = onDoubt }
                // A hundred are settled, three hundred may have been sent.
                _ = try await rig.query(
                    """
                    UPDATE peal.batch SET lease_no = 1, settled_lease_no = 1, sending_to = 300,
                        done = overlay(done PLACING decode(repeat('ff', 12) || '0f', 'hex') FROM 1) WHERE job_id = $1
                    """,
                    [.job(job)]
                )
                _ = try await rig.query(
                    """
                    INSERT INTO peal.result (job_id, device_id, route, outcome, attempt)
                    SELECT $1, d, 1, 1, 1 FROM unnest($2::bigint[]) AS d
                    """,
                    [.job(job), .int64s(Array(devices.prefix(100)))]
                )
                _ = try await rig.query("INSERT INTO peal.stat_delta VALUES ($1, 1, '', 100)", [.job(job)])
                try await self.end(job, end, rig)
                #expect(try await isSwept ? sweep(job, rig) : rig.send(job))
                let expected: [String: Int64] = ["accepted": 100, "unknown:in_doubt": 200, end.rawValue: 700]
                #expect(try await rig.outcomes(job) == expected, "\(isSwept ? "sweep" : "worker")")
                #expect(try await rig.accountingFaults() == 0)
            }
            #expect(rig.simulator.ledger.totals.requests == 0)
        }
    }

    @Test(arguments: ["resend", "unknown"])
    func `promise 3: a kill and a cancel leave no more in doubt than streams and one flush`(
        onDoubt: String
    ) async throws {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 20
        options.apns.streamsAfterAcceptance = 50
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(15_000))
            let job = try await rig.addJob("shop", devices: devices) {
                $0.onDoubt = onDoubt
                $0.batchSize = 5_000
            }
            let worker = try await rig.startWorker()
            #expect(await rig.simulator.ledger.waitUntilAccepted(2_000, upTo: .seconds(30)))
            try await worker.cutOff()
            await worker.kill()
            let sent = rig.simulator.ledger.totals.requests
            _ = try await rig.query("UPDATE peal.batch SET lease_until = now()")
            try await end(job, .cancelled, rig)
            #expect(try await sweep(job, rig))
            let outcomes = try await rig.outcomes(job)
            let unknown = outcomes["unknown:in_doubt", default: 0]
            let bound = Int64(4 * 50 + LaneSettings.campaign.aheadLimit)
            #expect(unknown <= bound, "\(outcomes)")
            #expect(Int64(sent) <= outcomes["accepted", default: 0] + unknown, "what was sent is not called cancelled")
            #expect(outcomes.values.reduce(0, +) == 15_000)
            #expect(try await rig.accountingFaults() == 0)
        }
    }
}
