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

    /// What becomes of a recipient after two attempts.
    enum Fate: String, CaseIterable, Sendable {
        case cancelled, exhausted, held
    }

    @Test(arguments: Fate.allCases, [true, false])
    func `promise 3: what may have been sent stays in doubt whatever a later attempt says`(
        _ fate: Fate,
        isDoubtful: Bool
    ) async throws {
        var options = SimulatorOptions()
        options.apns.streamsAtStart = 100
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(3))
            let job = try await rig.addJob("shop", devices: devices)
            let once = RetryPolicy.Ladder(steps: [.seconds(60)], attemptLimit: fate == .exhausted ? 2 : 12)
            let answers: [Behaviour] = [
                isDoubtful ? .silence : .reject(reason: "ServiceUnavailable"), .reject(reason: "InternalServerError"),
            ]
            try await rig.deliver {
                if isDoubtful { $0.laneSettings[.campaign]?.requestTimeLimit = .milliseconds(500) }
                $0.retryPolicy = RetryPolicy(provider: once, connection: once, device: once)
            } _: { service in
                for (index, answer) in answers.enumerated() {
                    rig.simulator.control.set(rules: [Rule(answer)])
                    try await rig.promoteAll()
                    service.wake(.campaign)
                    let isOver = try await rig.wait {
                        try await rig.number("SELECT count(*) FROM peal.batch") == 0
                            && rig.simulator.ledger.totals.requests == 3 * (index + 1)
                    }
                    #expect(isOver)
                    if fate == .held, index == 1 {
                        // Neither does a wait for the credential end the doubt.
                        _ = try await rig.query(
                            "UPDATE peal.credential SET state = 'refused', state_reason = 'x', updated_at = now()"
                        )
                        _ = try await rig.query("UPDATE peal.app SET on_credential_failure = 'hold'")
                    }
                }
                if fate == .held {
                    // Looked up anew once what was read of the credential is old.
                    let isHeld = try await rig.wait {
                        try await rig.promoteAll()
                        service.wake(.campaign)
                        return try await rig.texts("SELECT DISTINCT reason FROM peal.batch_delayed") == ["x"]
                    }
                    #expect(isHeld)
                }
            }
            if fate != .exhausted {
                try await end(job, .cancelled, rig)
                #expect(try await sweep(job, rig))
            }
            let definite = fate == .exhausted ? "rejected:InternalServerError" : "cancelled"
            #expect(try await rig.outcomes(job) == [isDoubtful ? "unknown:in_doubt" : definite: 3])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test(arguments: [nil, 8.0])
    func `promise 3: what FCM did not answer in time is sent again ten seconds later, or never`(
        expiresIn: Double?
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let devices = try await rig.addDevices(app, tokens: ["plain-0", "plain-1"], channel: "android")
            let job = try await rig.addJob("shop", devices: devices) {
                $0.route = .fcm
                $0.expiresIn = expiresIn
            }
            rig.simulator.control.add(Rule(.silence))
            let before = try await rig.texts("SELECT clock_timestamp()::text")[0]
            try await rig.deliver {
                $0.laneSettings[.campaign]?.requestTimeLimit = .milliseconds(300)
            } _: { _ in
                let isSo = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
                #expect(isSo)
            }
            let tooSoon = try await rig.number(
                "SELECT count(*) FROM peal.batch_delayed WHERE due_at < $1::timestamptz + interval '10 seconds'",
                [.text(before)]
            )
            #expect(tooSoon == 0)
            #expect(try await rig.remaining(job) == (expiresIn == nil ? 2 : 0))
            #expect(try await rig.outcomes(job) == (expiresIn == nil ? [:] : ["unknown:timed_out": 2]))
            #expect(rig.simulator.ledger.totals.requests(to: .fcm) == 2)
            #expect(try await rig.accountingFaults() == 0)
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
            let aheadLimit = 400
            let worker = try await rig.startWorker { $0.laneSettings[.campaign]?.aheadLimit = aheadLimit }
            #expect(await rig.simulator.ledger.waitUntilAccepted(2_000, upTo: .seconds(30)))
            try await worker.cutOff()
            await worker.kill()
            let sent = rig.simulator.ledger.totals.requests
            _ = try await rig.query("UPDATE peal.batch SET lease_until = now()")
            try await end(job, .cancelled, rig)
            #expect(try await sweep(job, rig))
            let outcomes = try await rig.outcomes(job)
            let unknown = outcomes["unknown:in_doubt", default: 0]
            // Four connections, and what may be ahead of them, one for the pool included.
            let bound = Int64(4 * 50 + aheadLimit + 1)
            #expect(unknown <= bound, "\(outcomes)")
            #expect(Int64(sent) <= outcomes["accepted", default: 0] + unknown, "what was sent is not called cancelled")
            #expect(outcomes.values.reduce(0, +) == 15_000)
            #expect(try await rig.accountingFaults() == 0)
        }
    }
}
