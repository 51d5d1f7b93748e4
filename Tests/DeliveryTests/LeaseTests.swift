import Delivery
import Postgres
import ProviderSimulator
import PushCore
import Testing

@Suite struct LeaseTests {
    private func shortLease(_ configuration: inout DeliveryConfiguration) {
        configuration.laneSettings[.campaign]?.lease = .seconds(2)
        configuration.laneSettings[.campaign]?.sweepInterval = .milliseconds(100)
        configuration.laneSettings[.campaign]?.pollInterval = .milliseconds(50)
    }

    private static let aheadLimit = 300
    /// Four connections of the simulator's APNs, and what may be ahead of them, one for the pool included.
    private static let mostInDoubt = Int64(4 * 50 + aheadLimit + 1)

    /// A worker that never writes what it settles.
    private func neverFlushes(_ configuration: inout DeliveryConfiguration) {
        shortLease(&configuration)
        configuration.laneSettings[.campaign]?.flushInterval = .seconds(3_600)
        configuration.laneSettings[.campaign]?.flushCount = .max
        configuration.laneSettings[.campaign]?.controlInterval = .seconds(3_600)
    }

    @Test func `batches whose tags the lane has left behind are all claimed once one is found`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(400))
            let early = try await rig.addJob("shop", devices: devices) { $0.tag = 1_000_000 }
            try await rig.deliver {
                $0.laneSettings[.campaign]?.floorLag = .zero
                $0.laneSettings[.campaign]?.sweepInterval = .seconds(5)
            } _: { _ in
                #expect(try await rig.waitUntilDone(early))
                // As if its transaction had been slow to commit. Two batches a claim.
                let late = try await rig.addJob("shop", devices: devices) { $0.batchSize = 10 }
                #expect(try await rig.waitUntilDone(late))
            }
        }
    }

    @Test(arguments: ["resend", "unknown"])
    func `promise 3: a worker that dies leaves each recipient with exactly one outcome`(onDoubt: String) async throws {
        var options = SimulatorOptions()
        options.apns.streamsAfterAcceptance = 50
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(3_000))
            let job = try await rig.addJob("shop", devices: devices) {
                $0.onDoubt = onDoubt
                $0.batchSize = 1_000
            }
            rig.simulator.control.set { $0.latencyMilliseconds = 20 }
            let first = try await rig.startWorker("first") {
                shortLease(&$0)
                $0.laneSettings[.campaign]?.aheadLimit = Self.aheadLimit
            }
            #expect(await rig.simulator.ledger.waitUntilAccepted(1_200, upTo: .seconds(30)))
            try await first.cutOff()
            await first.kill()
            let second = try await rig.startWorker("second", shortLease)
            #expect(try await rig.waitUntilDone(job, upTo: .seconds(30)))
            await second.stop()
            #expect(try await rig.accountingFaults() == 0)
            let outcomes = try await rig.outcomes(job)
            #expect(outcomes.values.reduce(0, +) == 3_000)
            let repeated = rig.simulator.ledger.acceptedHistogram().filter { $0.key > 1 }.values.reduce(0, +)
            if onDoubt == "unknown" {
                #expect(repeated == 0, "a job that must never send twice sent \(repeated) messages twice")
                #expect(outcomes["unknown:in_doubt", default: 0] <= Self.mostInDoubt)
            } else {
                #expect(outcomes == ["accepted": 3_000])
                #expect(Int64(repeated) <= Self.mostInDoubt)
            }
        }
    }

    @Test func `promise 4: a worker whose lease was lost writes nothing and stops that batch`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(20))
            let job = try await rig.addJob("shop", devices: devices)
            rig.simulator.control.set { $0.latencyMilliseconds = 300 }
            let worker = try await rig.startWorker("stale") { $0.laneSettings[.campaign]?.pollInterval = .seconds(60) }
            #expect(await rig.simulator.ledger.waitUntil(1))
            // Another worker has taken the batch over.
            _ = try await rig.query(
                "UPDATE peal.batch SET lease_token = gen_random_uuid(), lease_until = now() + interval '1 hour'"
            )
            #expect(await rig.simulator.ledger.waitUntilAccepted(1))
            let isLost = try await rig.wait {
                try await rig.number("SELECT count(*) FROM peal.result") == 0
                    && rig.simulator.ledger.totals.accepted >= 1
            }
            #expect(isLost)
            await worker.stop()
            #expect(try await rig.number("SELECT count(*) FROM peal.result") == 0)
            #expect(try await rig.number("SELECT count(*) FROM peal.stat_delta") == 0)
            #expect(try await rig.remaining(job) == 20)
            #expect(try await rig.number("SELECT bit_count(done) FROM peal.batch") == 0)
        }
    }

    @Test func `promise 4: a worker that claims its own expired batches again gives each recipient one outcome`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let tokens = DeliveryRig.tokens(21)
            let devices = try await rig.addDevices(app, tokens: tokens)
            let blocker = try await rig.hold("LOCK TABLE peal.stat_delta IN EXCLUSIVE MODE")
            let held = try await rig.addJob("shop", devices: [devices[20]])
            let worker = try await rig.startWorker("slow") {
                shortLease(&$0)
                $0.laneSettings[.campaign]?.slowAfter = .seconds(60)
            }
            #expect(try await rig.wait { try await rig.number(DeliveryRig.flushesHeldUp) == 1 })
            // All of it is settled and none of it is written when its lease ends; then it is claimed and settled once more.
            let job = try await rig.addJob("shop", devices: Array(devices.prefix(20)))
            worker.service.wake(.campaign)
            let isSentTwice = try await rig.wait {
                let counts = rig.simulator.ledger.acceptedCountsByToken()
                return tokens.prefix(20).allSatisfy { counts[$0, default: 0] >= 2 }
            }
            #expect(isSentTwice)
            await blocker.close()
            for job in [job, held] { #expect(try await rig.waitUntilDone(job)) }
            await worker.stop()
            #expect(try await rig.outcomes(job) == ["accepted": 20])
            #expect(try await rig.outcomes(held) == ["accepted": 1])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `what waits for a stream is taken back when its lease runs out, also while a flush waits`() async throws
    {
        var options = SimulatorOptions()
        options.apns.streamsAfterAcceptance = 1
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(21))
            let blocker = try await rig.hold("LOCK TABLE peal.stat_delta IN EXCLUSIVE MODE")
            let held = try await rig.addJob("shop", devices: [devices[20]])
            let worker = try await rig.startWorker("slow") {
                shortLease(&$0)
                $0.laneSettings[.campaign]?.pollInterval = .seconds(60)
                $0.maximumConnectionsPerPool = 1
            }
            #expect(try await rig.wait { try await rig.number(DeliveryRig.flushesHeldUp) == 1 })
            rig.simulator.control.set { $0.latencyMilliseconds = 300 }
            let job = try await rig.addJob("shop", devices: Array(devices.prefix(20)))
            worker.service.wake(.campaign)
            // One after the other: 20 take six seconds, and the lease is safe for one and a half.
            #expect(await rig.simulator.ledger.waitUntilAccepted(2))
            #expect(await !rig.simulator.ledger.waitUntilAccepted(14, upTo: .seconds(5)))
            await blocker.close()
            rig.simulator.control.set { $0.latencyMilliseconds = 0 }
            for job in [job, held] { #expect(try await rig.waitUntilDone(job)) }
            await worker.stop()
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 21])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 122: what a dead worker had in hand is done by another without anyone's help`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            // As many as a claim permits: more would need a flush.
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(20))
            let job = try await rig.addJob("shop", devices: devices)
            let first = try await rig.startWorker("first", neverFlushes)
            #expect(await rig.simulator.ledger.waitUntilAccepted(20))
            try await first.cutOff()
            #expect(try await rig.number("SELECT count(*) FROM peal.result") == 0)
            let second = try await rig.startWorker("second", shortLease)
            #expect(try await rig.waitUntilDone(job))
            await second.stop()
            await first.kill()
            #expect(try await rig.outcomes(job) == ["accepted": 20])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `cases 128, 134: a batch that takes longer than its lease is renewed and sent once`() async throws {
        var options = SimulatorOptions()
        options.apns.streamsAfterAcceptance = 1
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(40))
            let job = try await rig.addJob("shop", devices: devices)
            // Four streams at a time, so that the batch takes ten times the latency.
            rig.simulator.control.set { $0.latencyMilliseconds = 500 }
            let first = try await rig.startWorker("first", shortLease)
            let second = try await rig.startWorker("second", shortLease)
            let third = try await rig.startWorker("third", shortLease)
            #expect(try await rig.waitUntilDone(job, upTo: .seconds(40)))
            for worker in [first, second, third] { await worker.stop() }
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 40])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `a batch that is claimed again and again without an outcome is split until the culprit is alone`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(5))
            let job = try await rig.addJob("shop", devices: devices)
            _ = try await rig.query("UPDATE peal.batch SET lease_no = 3, done = set_bit(done, 1, 1)")
            _ = try await rig.query(
                "INSERT INTO peal.result (job_id, device_id, route, outcome, attempt) VALUES ($1, $2, 1, 1, 1)",
                [.job(job), .int64(devices[1])]
            )
            _ = try await rig.query("INSERT INTO peal.stat_delta VALUES ($1, 1, '', 1)", [.job(job)])
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 5])
            #expect(try await rig.accountingFaults() == 0)

            let single = try await rig.addJob("shop", devices: [devices[0]])
            _ = try await rig.query("UPDATE peal.batch SET lease_no = 3")
            #expect(try await rig.send(single))
            #expect(try await rig.outcomes(single) == ["rejected:quarantined": 1])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 132: results in hand are kept while the database is away`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(500))
            let job = try await rig.addJob("shop", devices: devices) { $0.batchSize = 100 }
            rig.simulator.control.set { $0.latencyMilliseconds = 200 }
            let worker = try await rig.startWorker()
            #expect(await rig.simulator.ledger.waitUntil(20))
            try await worker.cutOff()
            let before = try await rig.number("SELECT count(*) FROM peal.result")
            #expect(await rig.simulator.ledger.waitUntilAccepted(100))
            #expect(try await rig.number("SELECT count(*) FROM peal.result") == before)
            try await worker.reconnect()
            #expect(try await rig.waitUntilDone(job))
            await worker.stop()
            #expect(try await rig.outcomes(job) == ["accepted": 500])
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 500])
            #expect(try await rig.accountingFaults() == 0)
        }
    }
}
