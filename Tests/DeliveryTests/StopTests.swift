@testable import Delivery
import Postgres
import ProviderSimulator
import PushCore
import SQLText
import Synchronization
import Testing

@Suite struct StopTests {
    @Test func `case 120: a stop writes what was in flight and gives the rest back at once`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(5_500))
            let job = try await rig.addJob("shop", devices: devices) { $0.batchSize = 1_000 }
            rig.simulator.control.set(rules: [
                Rule(.settings(maxConcurrentStreams: 50), times: 1), Rule(.accept, delayMilliseconds: 700),
            ])
            let worker = try await rig.startWorker()
            #expect(await rig.simulator.ledger.waitUntil(40))
            await worker.stop(within: .seconds(10))
            let accepted = rig.simulator.ledger.totals.accepted
            #expect(try await rig.outcomes(job) == ["accepted": Int64(accepted)])
            #expect(accepted < 5_500)
            #expect(try await rig.remaining(job) == Int64(5_500 - accepted))
            // Anyone may go on at once, and nothing is in doubt.
            #expect(try await rig.number("SELECT count(*) FROM peal.batch WHERE lease_until > now()") == 0)
            #expect(try await rig.number("SELECT coalesce(max(sending_to), 0) FROM peal.batch") == 0)
            #expect(try await rig.accountingFaults() == 0)

            rig.simulator.control.reset()
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 5_500])
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 5_500])
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `a stop does not wait for a flush that the database holds up`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(20))
            let job = try await rig.addJob("shop", devices: devices)
            let blocker = try await rig.hold("LOCK TABLE peal.stat_delta IN EXCLUSIVE MODE")
            let worker = try await rig.startWorker { $0.database.statementDeadline = .seconds(600) }
            #expect(try await rig.wait { try await rig.number(DeliveryRig.flushesHeldUp) == 1 })
            await worker.stop(within: .zero)
            #expect(try await rig.number("SELECT count(*) FROM peal.result") == 0)
            await blocker.close()
            #expect(try await rig.accountingFaults() == 0)
            // What was sent is in doubt, and sent again once its lease ends.
            _ = try await rig.query("UPDATE peal.batch SET lease_until = now()")
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 20])
        }
    }

    @Test func `a stop does not wait for a token endpoint that is silent`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let devices = try await rig.addDevices(app, tokens: ["t1"], channel: "android")
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            rig.simulator.control.set(rules: [Rule(.silence, role: .oauth)])
            let worker = try await rig.startWorker()
            #expect(await rig.simulator.ledger.waitUntil(1))
            try await expectPromptStop(of: worker, within: .milliseconds(100), rig)
            #expect(try await rig.remaining(job) == 1)
            #expect(try await rig.number("SELECT count(*) FROM peal.batch WHERE lease_until > now()") == 0)
        }
    }

    @Test func `a stop does not wait for a provider that is asked about a credential and is silent`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1))
            let job = try await rig.addJob("shop", devices: devices)
            // With one message only, the provider is asked with a request of our own.
            rig.simulator.control.set(rules: [
                Rule(.reject(reason: "InvalidProviderToken"), times: 1), Rule(.silence),
            ])
            let worker = try await rig.startWorker()
            #expect(await rig.simulator.ledger.waitUntil(2))
            try await expectPromptStop(of: worker, within: .seconds(30), rig)
            #expect(try await rig.remaining(job) == 1)
            #expect(try await rig.number("SELECT count(*) FROM peal.batch WHERE lease_until > now()") == 0)
        }
    }

    @Test(arguments: [Duration.milliseconds(100), .seconds(60)])
    func `a stop waits no longer than for one question for a provider that is asked about tokens and is silent`(
        limit: Duration
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let tokens = (0..<200).map { "plain-\($0)" } + (0..<45).map { "doubt-\($0)" }
            let devices = try await rig.addDevices(app, tokens: tokens, channel: "android")
            rig.simulator.control.set(rules: [
                Rule(.fault(.invalidToken), tokenPrefix: "doubt-", scope: .token, times: 1),
                Rule(.silence, tokenPrefix: "doubt-"),
            ])
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            let worker = try await rig.startWorker()
            #expect(try await rig.waitUntilDone(job))
            #expect(try await rig.wait { rig.simulator.ledger.requests().contains(where: \.validateOnly) })
            try await expectPromptStop(of: worker, within: limit, upTo: .seconds(30), rig)
            #expect(try await rig.number("SELECT count(*) FROM peal.device WHERE disabled_at IS NOT NULL") == 0)
        }
    }

    /// What is asked of others may take long, the stop may not.
    private func expectPromptStop(
        of worker: Worker,
        within limit: Duration,
        upTo longest: Duration = .seconds(10),
        _ rig: DeliveryRig
    ) async throws {
        let hasEnded = Mutex(false)
        let stopping = Task {
            await worker.stop(within: limit)
            hasEnded.withLock { $0 = true }
        }
        #expect(try await rig.wait(upTo: longest) { hasEnded.withLock { $0 } })
        await stopping.value
    }

    @Test func `a batch that is given back as it was is given back again where the first try may have failed`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(5))
            _ = try await rig.addJob("shop", devices: devices)
            let rows = try await rig.connection.query(
                SQLText.deliveryClaimBatches[.campaign],
                [.int16(0), .int64(30_000), .int32(1), .int64(.min), .int32s([]), .int32(0)]
            )
            let row = try ClaimedBatch(rows, row: 0)
            let unit = FlushPlan.Unit(
                number: 1,
                row: row,
                done: row.done,
                flushedCount: 0,
                sendingTo: 0,
                hasProgress: true,
                fate: .release,
                results: ResultRows(),
                delays: []
            )
            let plan = FlushPlan(units: [unit], jobs: [], commitsAsynchronously: false, reasons: ReasonTable())
            let flusher = Flusher(lane: .campaign, slot: 0, lease: .seconds(30))
            let remainder = try await flusher.remainder(of: plan, on: rig.connection)
            #expect(remainder.unwritten == [1] && remainder.written.isEmpty)
            let report = try await flusher.write(plan, on: rig.connection)
            #expect(report.ours == [1])
            #expect(try await rig.number("SELECT count(*) FROM peal.batch WHERE lease_until <= now()") == 1)
        }
    }

    @Test(arguments: ["resend", "unknown"])
    func `a stop that cannot wait writes what was settled and leaves the rest to the policy`(
        onDoubt: String
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(200))
            let job = try await rig.addJob("shop", devices: devices) { $0.onDoubt = onDoubt }
            rig.simulator.control.set(rules: [Rule(.silence, skip: 100)])
            let worker = try await rig.startWorker()
            #expect(await rig.simulator.ledger.waitUntil(150))
            let isWritten = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.result") == 100 }
            #expect(isWritten)
            await worker.kill()
            #expect(try await rig.accountingFaults() == 0)
            rig.simulator.control.reset()
            try await rig.promoteAll()
            #expect(try await rig.send(job))
            let outcomes = try await rig.outcomes(job)
            #expect(outcomes.values.reduce(0, +) == 200)
            if onDoubt == "resend" {
                #expect(outcomes == ["accepted": 200])
            } else {
                #expect(outcomes.keys.allSatisfy { $0 == "accepted" || $0.hasPrefix("unknown:") })
                #expect(rig.simulator.ledger.acceptedHistogram().keys.allSatisfy { $0 == 1 })
            }
            #expect(try await rig.accountingFaults() == 0)
        }
    }
}
