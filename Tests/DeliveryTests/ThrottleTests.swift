import Delivery
import Postgres
import ProviderSimulator
import PushCore
import Telemetry
import TestSupport
import Testing

/// What 429 and 503 mean for the other messages of an app.
@Suite struct ThrottleTests {
    private func withFCM(
        devices: Int,
        _ body: (DeliveryRig, JobID) async throws -> Void
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let ids = try await rig.addDevices(app, tokens: (0..<devices).map { "t\($0)" }, channel: "android")
            let job = try await rig.addJob("shop", devices: ids) {
                $0.route = .fcm
                $0.batchSize = 50
            }
            try await body(rig, job)
        }
    }

    private func waitUntilAllWait(_ rig: DeliveryRig) async throws -> Bool {
        try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
    }

    @Test(arguments: [false, true])
    func `case 79: after 429 nothing goes to the project until Retry-After, whatever job and lane`(
        isDate: Bool
    ) async throws {
        try await withFCM(devices: 2_000) { rig, job in
            rig.simulator.control.set(rules: [
                Rule(.fault(.quota), retryAfter: isDate ? .dateInSeconds(120) : .seconds(120), times: 1),
                Rule(.accept, delayMilliseconds: 20),
            ])
            try await rig.deliver {
                $0.lanes = [.campaign, .transactional]
            } _: { service in
                #expect(try await waitUntilAllWait(rig))
                let sent = rig.simulator.ledger.totals.requests(to: .fcm)
                #expect(sent < 2_000, "what was on its way when it was refused, and no more")
                #expect(try await rig.texts("SELECT DISTINCT reason FROM peal.batch_delayed") == ["QUOTA_EXCEEDED"])
                let early = "SELECT count(*) FROM peal.batch_delayed WHERE due_at < now() + interval '100 s'"
                #expect(try await rig.number(early) == 0)
                let other = try await rig.addJob("shop", devices: [1, 2]) {
                    $0.route = .fcm
                    $0.lane = .transactional
                }
                try await rig.promoteAll()
                service.wake(.campaign)
                service.wake(.transactional)
                #expect(try await waitUntilAllWait(rig))
                #expect(rig.simulator.ledger.totals.requests(to: .fcm) == sent)
                #expect(try await rig.remaining(other) == 2)
            }
            #expect(try await rig.remaining(job) > 0)
            #expect(try await rig.number("SELECT max(attempt) FROM peal.batch_delayed") == 2)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 79: what expires before Retry-After is over expires at once`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let devices = try await rig.addDevices(app, tokens: (0..<200).map { "t\($0)" }, channel: "android")
            rig.simulator.control.set(rules: [
                Rule(.fault(.quota), retryAfter: .seconds(120), times: 1), Rule(.accept, delayMilliseconds: 20),
            ])
            let job = try await rig.addJob("shop", devices: devices) {
                $0.route = .fcm
                $0.batchSize = 50
                $0.expiresIn = 60
            }
            #expect(try await rig.send(job))
            let outcomes = try await rig.outcomes(job)
            #expect(Set(outcomes.keys).isSubset(of: ["accepted", "expired:QUOTA_EXCEEDED"]), "\(outcomes)")
            #expect(outcomes["expired:QUOTA_EXCEEDED", default: 0] > 0)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 79: another process and another app of the project wait too, other projects do not`() async throws
    {
        try await withFCM(devices: 5) { rig, _ in
            let sister = try await rig.addApp("sister")
            try await rig.addFCM(sister)
            let stranger = try await rig.addApp("stranger")
            try await rig.addAPNs(stranger)
            rig.simulator.control.add(Rule(.fault(.quota), retryAfter: .seconds(120), times: 1))
            let first = try await rig.startWorker("first")
            let held = "SELECT count(*) FROM peal.credential WHERE held_until > now() + interval '100 s'"
            let areHeld = try await rig.wait { try await rig.number(held) == 2 }
            await first.stop()
            #expect(areHeld)

            let sent = rig.simulator.ledger.totals.requests(to: .fcm)
            try await rig.promoteAll()
            let waiting = try await rig.addJob(
                "sister",
                devices: try await rig.addDevices(sister, tokens: ["s"], channel: "android")
            ) { $0.route = .fcm }
            let free = try await rig.addJob(
                "stranger",
                devices: try await rig.addDevices(stranger, tokens: DeliveryRig.tokens(3))
            )
            let second = try await rig.startWorker("second")
            let isDone = try await rig.waitUntilDone(free)
            let areSetAside = try await waitUntilAllWait(rig)
            await second.stop()
            #expect(isDone && areSetAside)
            #expect(rig.simulator.ledger.totals.requests(to: .fcm) == sent)
            #expect(try await rig.remaining(waiting) == 1)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test(arguments: [false, true])
    func `case 74: 503 with Retry-After holds the project, without it only the message waits`(
        isDate: Bool
    ) async throws {
        try await withFCM(devices: 10) { rig, job in
            rig.simulator.control.add(Rule(.fault(.unavailable), times: 1))
            try await rig.deliver { service in
                #expect(try await rig.wait { try await rig.remaining(job) == 1 })
                #expect(try await waitUntilAllWait(rig))
                rig.simulator.control.set(rules: [
                    Rule(.fault(.unavailable), retryAfter: isDate ? .dateInSeconds(120) : .seconds(120), times: 1)
                ])
                try await rig.promoteAll()
                service.wake(.campaign)
                let waits = "SELECT count(*) FROM peal.batch_delayed WHERE due_at > now() + interval '100 s'"
                #expect(try await rig.wait { try await rig.number(waits) == 1 })
                // Who was answered has had an attempt, last of the batch or not; who is only held has not.
                let attempt = "SELECT max(attempt) FROM peal.batch_delayed"
                #expect(try await rig.number(attempt) == 3)
                let sent = rig.simulator.ledger.totals.requests(to: .fcm)
                try await rig.promoteAll()
                service.wake(.campaign)
                #expect(try await rig.wait { try await rig.number(waits) == 1 })
                #expect(rig.simulator.ledger.totals.requests(to: .fcm) == sent)
                #expect(try await rig.number(attempt) == 3)
            }
        }
    }

    @Test func `promise 9: credentials that somebody has locked keep no other app waiting when their holds are noted`()
        async throws
    {
        try await DeliveryRig.with { rig in
            var devices: [String: Int64] = [:]
            for name in ["shop", "talk", "news"] {
                let app = try await rig.addApp(name)
                if name == "talk" {
                    try await rig.addFCM(app)
                } else {
                    try await rig.addAPNs(app, key: try rig.simulator.makeAPNsKey())
                }
                let tokens = name == "talk" ? ["t"] : DeliveryRig.tokens(1, seed: name == "shop" ? 0 : 1)
                devices[name] = try await rig.addDevices(
                    app,
                    tokens: tokens,
                    channel: name == "talk" ? "android" : "ios"
                )[0]
            }
            func push(_ name: String) async throws -> JobID {
                try await rig.addJob(name, devices: [try #require(devices[name])]) {
                    $0.route = name == "talk" ? .fcm : .apnsProduction
                }
            }
            try await rig.deliver { service in
                for name in ["shop", "talk"] {
                    let first = try await push(name)
                    service.wake(.campaign)
                    #expect(try await rig.waitUntilDone(first))
                }
                let blocker = try await rig.hold("SELECT FROM peal.credential FOR NO KEY UPDATE")
                rig.simulator.control.add(
                    Rule(.reject(reason: "ServiceUnavailable"), retryAfter: .seconds(120), times: 1)
                )
                _ = try await push("shop")
                service.wake(.campaign)
                #expect(try await waitUntilAllWait(rig))
                rig.simulator.control.set(rules: [Rule(.fault(.quota), retryAfter: .seconds(120), times: 1)])
                _ = try await push("talk")
                service.wake(.campaign)
                #expect(try await waitUntilAllWait(rig))
                let hasTried = try await rig.wait {
                    try await rig.number(
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                            + "AND query LIKE '%SET held_until%' AND wait_event_type = 'Lock'"
                    ) > 0
                }
                #expect(hasTried)
                let free = try await push("news")
                service.wake(.campaign)
                #expect(try await rig.waitUntilDone(free, upTo: .seconds(10)))
                #expect(try await rig.outcomes(free) == ["accepted": 1])
                await blocker.close()
            }
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `a device of an Android app that gets too much holds nobody else`() async throws {
        try await withFCM(devices: 100) { rig, job in
            rig.simulator.control.add(
                Rule(.fault(.deviceQuota), tokenPrefix: "t7", retryAfter: .seconds(120), times: 1)
            )
            try await rig.deliver { _ in
                let isDone = try await rig.wait { try await rig.remaining(job) == 1 }
                #expect(isDone)
            }
            #expect(try await rig.outcomes(job) == ["accepted": 99])
            #expect(try await rig.number("SELECT count(*) FROM peal.credential WHERE held_until IS NOT NULL") == 0)
        }
    }

    @Test(arguments: ["TooManyRequests", "ServiceUnavailable"])
    func `APNs: too many requests to one device hold nobody else, a named wait of the service does`(
        reason: String
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(200))
            rig.simulator.control.set(rules: [
                Rule(.reject(reason: reason), retryAfter: .seconds(120), skip: 20, times: 1),
                Rule(.accept, delayMilliseconds: 5),
            ])
            let job = try await rig.addJob("shop", devices: devices) { $0.batchSize = 20 }
            try await rig.deliver {
                $0.maximumConnectionsPerPool = 1
            } _: { _ in
                let areSetAside = try await waitUntilAllWait(rig)
                let left = try await rig.remaining(job)
                #expect(areSetAside && (reason == "TooManyRequests" ? left == 1 : left > 1))
            }
            let holds = try await rig.texts("SELECT coalesce(held_reason, 'none') FROM peal.credential")
            #expect(holds == [reason == "TooManyRequests" ? "none" : reason])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 79: everything over a rate is refused, and all of it arrives without a ban`() async throws {
        try await withFCM(devices: 300) { rig, job in
            rig.simulator.control.set {
                $0.rateLimits[.fcm] = RateLimit(
                    requests: 100,
                    windowMilliseconds: 200,
                    retryAfter: .seconds(1),
                    dropConnectionAfter: 250
                )
            }
            try await rig.deliver { service in
                let isDone = try await rig.wait(upTo: .seconds(60)) {
                    if try await rig.number("SELECT count(*) FROM peal.batch_delayed WHERE due_at > now()") == 0 {
                        try await rig.promoteAll()
                        service.wake(.campaign)
                    }
                    return try await rig.remaining(job) == 0
                }
                #expect(isDone)
            }
            #expect(try await rig.outcomes(job) == ["accepted": 300])
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 300])
            #expect(try await rig.accountingFaults() == 0)
        }
    }
}
