import Delivery
import Postgres
import ProviderSimulator
import PushCore
import Testing

@Suite struct ControlTests {
    /// A campaign that takes long, in the middle of which `body` comes.
    private func withRunningCampaign(
        _ body: (DeliveryRig, JobID, DeliveryService) async throws -> Void
    ) async throws {
        var options = SimulatorOptions()
        options.apns.streamsAfterAcceptance = 2
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(4_000))
            let job = try await rig.addJob("shop", devices: devices) { $0.batchSize = 1_000 }
            rig.simulator.control.set { $0.latencyMilliseconds = 50 }
            try await rig.deliver { service in
                #expect(await rig.simulator.ledger.waitUntilAccepted(10))
                try await body(rig, job, service)
            }
            #expect(try await rig.accountingFaults() == 0)
            #expect(rig.simulator.ledger.acceptedHistogram().keys.allSatisfy { $0 == 1 })
        }
    }

    @Test func `promise 6: what waits for a stream is taken back when the database says nothing of its job`()
        async throws
    {
        var options = SimulatorOptions()
        options.apns.streamsAfterAcceptance = 1
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(20))
            rig.simulator.control.set { $0.latencyMilliseconds = 300 }
            let job = try await rig.addJob("shop", devices: devices)
            let blocker = try await rig.hold("LOCK TABLE peal.stat_delta IN EXCLUSIVE MODE")
            let worker = try await rig.startWorker { $0.maximumConnectionsPerPool = 1 }
            #expect(await rig.simulator.ledger.waitUntilAccepted(2))
            _ = try await rig.query("SELECT peal.cancel_job($1)", [.job(job)])
            // One after the other, three a second: in five seconds most would be out.
            #expect(await !rig.simulator.ledger.waitUntilAccepted(10, upTo: .seconds(5)))
            await blocker.close()
            #expect(try await rig.waitUntilDone(job))
            await worker.stop()
            #expect(rig.simulator.ledger.totals.requests < 10)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test(arguments: ["cancel_job", "pause_job"])
    func `promise 6: a stop takes effect within a second, also while a flush waits for the database`(
        function: String
    ) async throws {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 30
        options.apns.streamsAfterAcceptance = 50
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(15_000))
            let job = try await rig.addJob("shop", devices: devices) { $0.batchSize = 5_000 }
            let worker = try await rig.startWorker()
            #expect(await rig.simulator.ledger.waitUntilAccepted(1_000, upTo: .seconds(30)))
            // The flush has read what becomes of the job, and waits with its counts.
            let blocker = try await rig.hold("LOCK TABLE peal.stat_delta IN EXCLUSIVE MODE")
            #expect(
                try await rig.wait {
                    try await rig.number(
                        "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'RowExclusiveLock'"
                    ) > 0
                }
            )
            _ = try await rig.query("SELECT peal.\(function)($1)", [.job(job)])
            let stopped = try await rig.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
            let sinceStop = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - \(stopped)"
            #expect(try await rig.wait { try await rig.number(sinceStop) > 1_100 })
            let sent = rig.simulator.ledger.totals.requests
            await blocker.close()
            #expect(try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 })
            await worker.stop()
            #expect(rig.simulator.ledger.totals.requests == sent)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 6: a cancelled job stops within a second, and what was on the wire is counted`() async throws {
        try await withRunningCampaign { rig, job, _ in
            _ = try await rig.query("SELECT peal.cancel_job($1)", [.job(job)])
            let cancelledAt = ContinuousClock.now
            let isEmpty = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
            #expect(isEmpty)
            let requests = rig.simulator.ledger.totals.requests
            #expect(ContinuousClock.now - cancelledAt < .seconds(10), "bounded, not timed: the machine is shared")
            let outcomes = try await rig.outcomes(job)
            #expect(outcomes["accepted", default: 0] == Int64(requests))
            #expect(outcomes["cancelled", default: 0] == Int64(4_000 - requests))
        }
    }

    @Test func `promise 6: a paused job waits in full and goes on exactly where it stopped`() async throws {
        try await withRunningCampaign { rig, job, service in
            _ = try await rig.query("SELECT peal.pause_job($1)", [.job(job)])
            await service.checkControl()
            let isEmpty = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
            #expect(isEmpty)
            let accepted = try await rig.number("SELECT count(*) FROM peal.result")
            #expect(try await rig.remaining(job) == 4_000 - accepted)
            #expect(
                try await rig.number("SELECT count(*) FROM peal.batch_delayed WHERE due_at < 'infinity'") == 0
            )
            rig.simulator.control.set(rules: [Rule(.settings(maxConcurrentStreams: 1_000), times: 4)])
            rig.simulator.control.set { $0.latencyMilliseconds = 0 }
            _ = try await rig.query("SELECT peal.resume_job($1)", [.job(job)])
            try await rig.promoteAll()
            service.wake(.campaign)
            #expect(try await rig.waitUntilDone(job, upTo: .seconds(30)))
            #expect(try await rig.outcomes(job) == ["accepted": 4_000])
        }
    }

    @Test func `a job that was resumed before its batches were set aside does not wait for ever`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(5))
            let job = try await rig.addJob("shop", devices: devices)
            rig.simulator.control.set { $0.latencyMilliseconds = 1_500 }
            try await rig.deliver { service in
                #expect(await rig.simulator.ledger.waitUntil(1))
                _ = try await rig.query("SELECT peal.pause_job($1)", [.job(job)])
                await service.checkControl()
                // The worker still waits for an answer when the job is resumed.
                _ = try await rig.query("SELECT peal.resume_job($1)", [.job(job)])
                _ = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
                rig.simulator.control.reset()
                #expect(
                    try await rig.number("SELECT count(*) FROM peal.batch_delayed WHERE due_at = 'infinity'") == 0
                )
                try await rig.promoteAll()
                service.wake(.campaign)
                #expect(try await rig.waitUntilDone(job))
            }
            #expect(try await rig.outcomes(job) == ["accepted": 5])
        }
    }

    @Test func `a batch of a job that is paused or cancelled is not sent at all`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(3))
            let cancelled = try await rig.addJob("shop", devices: devices)
            let paused = try await rig.addJob("shop", devices: devices)
            _ = try await rig.query("UPDATE peal.job SET state = 'cancelled' WHERE id = $1", [.job(cancelled)])
            _ = try await rig.query("UPDATE peal.job SET paused_at = now() WHERE id = $1", [.job(paused)])
            try await rig.deliver { _ in
                let isEmpty = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
                #expect(isEmpty)
            }
            #expect(rig.simulator.ledger.totals.requests == 0)
            #expect(try await rig.outcomes(cancelled) == ["cancelled": 3])
            #expect(try await rig.remaining(paused) == 3)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 5, case 80: nothing is sent after its expiry`() async throws {
        var options = SimulatorOptions()
        options.apns.streamsAfterAcceptance = 1
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(10))
            let late = try await rig.addJob("shop", devices: devices) { $0.expiresIn = -1 }
            #expect(try await rig.send(late))
            #expect(try await rig.outcomes(late) == ["expired": 10])
            #expect(rig.simulator.ledger.totals.requests == 0)

            // Claimed in time, but its turn on the one stream comes too late.
            rig.simulator.control.set { $0.latencyMilliseconds = 900 }
            let slow = try await rig.addJob("shop", devices: devices) { $0.expiresIn = 2 }
            #expect(try await rig.send(slow))
            let outcomes = try await rig.outcomes(slow)
            #expect(outcomes["expired", default: 0] > 0)
            #expect(outcomes.values.reduce(0, +) == 10)

            // A retry that would come after the expiry is none.
            rig.simulator.control.set(rules: [Rule(.reject(reason: "TooManyProviderTokenUpdates"))])
            let refused = try await rig.addJob("shop", devices: devices) { $0.expiresIn = 60 }
            #expect(try await rig.send(refused))
            #expect(try await rig.outcomes(refused) == ["expired:TooManyProviderTokenUpdates": 10])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 5: the provider is told the time that is left`() async throws {
        var options = SimulatorOptions()
        options.keepsBodies = true
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            try await rig.addFCM(app)
            let phones = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1))
            let androids = try await rig.addDevices(app, tokens: ["android"], channel: "android")
            let ios = try await rig.addJob("shop", devices: phones) { $0.expiresIn = 100 }
            let android = try await rig.addJob("shop", devices: androids) {
                $0.route = .fcm
                $0.expiresIn = 100
            }
            let now = try await rig.addJob("shop", devices: phones) { $0.ttl = 0 }
            try await rig.deliver { _ in
                for job in [ios, android, now] {
                    let isDone = try await rig.waitUntilDone(job)
                    #expect(isDone)
                }
            }
            let expiry = try await rig.number(
                "SELECT floor(extract(epoch FROM expires_at))::bigint FROM peal.job WHERE id = $1",
                [.job(ios)]
            )
            let expirations = rig.simulator.ledger.requests(role: .apnsProduction).compactMap(\.expiration)
            #expect(Set(expirations) == [String(expiry), "0"])
            let ttl = try #require(rig.simulator.ledger.requests(role: .fcm).first?.expiration)
            let seconds = try #require(Int(ttl.filter(\.isNumber)))
            #expect((60...100).contains(seconds))
        }
    }
}
