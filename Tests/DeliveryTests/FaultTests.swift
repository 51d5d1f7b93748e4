import Delivery
import Postgres
import ProviderSimulator
import PushCore
import Telemetry
import TestSupport
import Testing

@Suite struct FaultTests {
    private func withAPNs(
        devices count: Int,
        _ body: (DeliveryRig, AppID, [Int64]) async throws -> Void
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(count))
            try await body(rig, app, devices)
            #expect(try await rig.accountingFaults() == 0)
            #expect(try await rig.number("SELECT count(*) FROM peal.device WHERE disabled_at IS NOT NULL") == 0)
        }
    }

    /// Waits until the first attempt of everything is over, and the recipients wait for their second.
    private func waitUntilDelayed(_ rig: DeliveryRig) async throws -> Bool {
        try await rig.wait {
            let ready = try await rig.number("SELECT count(*) FROM peal.batch")
            let delayed = try await rig.number("SELECT count(*) FROM peal.batch_delayed")
            return ready == 0 && delayed > 0
        }
    }

    @Test func `case 63: a second attempt that works is one accepted recipient with two attempts`() async throws {
        try await withAPNs(devices: 1) { rig, _, devices in
            rig.simulator.control.add(Rule(.reject(reason: "InternalServerError"), times: 1))
            let job = try await rig.addJob("shop", devices: devices)
            try await rig.deliver { service in
                #expect(try await waitUntilDelayed(rig))
                try await rig.promoteAll()
                service.wake(.campaign)
                #expect(try await rig.waitUntilDone(job))
            }
            #expect(try await rig.outcomes(job) == ["accepted": 1])
            #expect(try await rig.number("SELECT attempt FROM peal.result") == 2)
            let ids = Set(rig.simulator.ledger.requests().map(\.messageID))
            #expect(ids.count == 1, "a repeated request repeats its apns-id")
        }
    }

    @Test(arguments: [
        (500, true), (502, true), (503, true), (504, true), (400, false), (404, false), (405, false), (413, false),
    ])
    func `cases 68, 69, 72: a page instead of JSON is judged by its status`(status: Int, isTransient: Bool) async throws
    {
        try await withAPNs(devices: 3) { rig, _, devices in
            rig.simulator.control.add(Rule(.body(status: status, .html)))
            let job = try await rig.addJob("shop", devices: devices)
            if isTransient {
                try await rig.deliver { _ in
                    let isDelayed = try await waitUntilDelayed(rig)
                    #expect(isDelayed)
                }
                #expect(try await rig.texts("SELECT DISTINCT reason FROM peal.batch_delayed") == ["http_\(status)"])
                #expect(try await rig.number("SELECT min(attempt) FROM peal.batch_delayed") == 2)
            } else {
                #expect(try await rig.send(job))
                #expect(try await rig.outcomes(job) == ["rejected:http_\(status)": 3])
            }
            #expect(rig.simulator.ledger.totals.requests == 3)
        }
    }

    @Test func `case 74: Retry-After is the least wait`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let devices = try await rig.addDevices(app, tokens: ["t1", "t2", "t3"], channel: "android")
            rig.simulator.control.set(rules: [
                Rule(.fault(.quota), tokenPrefix: "t1", retryAfter: .seconds(120)),
                Rule(.fault(.unavailable), tokenPrefix: "t2", retryAfter: .dateInSeconds(120)),
                Rule(.fault(.unavailable), tokenPrefix: "t3", retryAfter: .dateInSeconds(-120)),
            ])
            _ = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            try await rig.deliver { _ in
                let isDelayed = try await waitUntilDelayed(rig)
                #expect(isDelayed)
            }
            let waits = try await rig.query(
                "SELECT extract(epoch FROM due_at - now())::float8 AS wait FROM peal.batch_delayed ORDER BY 1 DESC"
            )
            let seconds = try waits.indices.map { try waits.double($0, 0) }
            #expect(seconds.filter { $0 > 100 && $0 < 200 }.count >= 1)
            #expect(seconds.contains { $0 < 10 })
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 82: attempts come to an end`() async throws {
        try await withAPNs(devices: 2) { rig, _, devices in
            rig.simulator.control.add(Rule(.reject(reason: "ServiceUnavailable")))
            let job = try await rig.addJob("shop", devices: devices)
            try await rig.deliver { service in
                for _ in 0..<12 {
                    _ = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
                    try await rig.promoteAll()
                    service.wake(.campaign)
                }
                #expect(try await rig.waitUntilDone(job))
            }
            #expect(try await rig.outcomes(job) == ["rejected:ServiceUnavailable": 2])
            #expect(rig.simulator.ledger.totals.requests == 24)
        }
    }

    @Test func `case 59: a closed port is a reason to wait, not a delivery`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app, endpoint: "https://127.0.0.1:1")
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(5))
            let job = try await rig.addJob("shop", devices: devices) { $0.expiresIn = 60 }
            try await rig.deliver { _ in
                let isDelayed = try await rig.wait(upTo: .seconds(45)) {
                    try await rig.texts("SELECT reason FROM peal.batch_delayed") == ["connect_failed"]
                }
                #expect(isDelayed)
            }
            #expect(try await rig.remaining(job) == 5)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 61: one recipient that cannot be encoded and one that is dead cost the others nothing`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            var tokens = DeliveryRig.tokens(10)
            tokens[2] = "a token\nthat no header field can hold"
            tokens[6] = "deadbeef" + String(repeating: "0", count: 56)
            let devices = try await rig.addDevices(app, tokens: tokens)
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            let outcomes = try await rig.outcomes(job)
            #expect(outcomes == ["accepted": 8, "skipped:malformed_token": 1, "rejected:Unregistered": 1])
            let rows = try await rig.texts(
                "SELECT device_id || ' ' || reason FROM peal.result WHERE reason IS NOT NULL ORDER BY device_id"
            )
            #expect(rows == ["\(devices[2]) malformed_token", "\(devices[6]) Unregistered"])
            #expect(try await rig.number("SELECT count(DISTINCT device_id) FROM peal.result") == 10)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test(arguments: [20, 2_000])
    func `a day without a partition for its results gets one from the flush that meets it`(count: Int) async throws {
        try await withAPNs(devices: count) { rig, _, devices in
            let job = try await rig.addJob("shop", devices: devices)
            let partitions = try await rig.texts(
                "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'peal.result'::regclass"
            )
            for partition in partitions { _ = try await rig.query("DROP TABLE \(partition)") }
            // As the role that workers have, which owns no table.
            let worker = try await rig.startWorker()
            #expect(try await rig.waitUntilDone(job))
            await worker.stop()
            #expect(try await rig.outcomes(job) == ["accepted": Int64(count)])
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: count])
        }
    }

    @Test func `a window of zero holds bodies back until it opens, and nothing is lost or repeated`() async throws {
        try await withAPNs(devices: 200) { rig, _, devices in
            rig.simulator.control.set(rules: [Rule(.initialWindow(0), skip: 20, times: 1)])
            let job = try await rig.addJob("shop", devices: devices)
            try await rig.deliver {
                $0.maximumConnectionsPerPool = 1
            } _: { _ in
                let isAnnounced = try await rig.wait { rig.simulator.ledger.totals.requests > 20 }
                #expect(isAnnounced)
                rig.simulator.control.perform(.initialWindow(65_535))
                let isDone = try await rig.waitUntilDone(job)
                #expect(isDone)
            }
            #expect(try await rig.outcomes(job) == ["accepted": 200])
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 200])
        }
    }

    @Test func `case 110: a graceful GOAWAY loses and repeats nothing`() async throws {
        try await withAPNs(devices: 400) { rig, _, devices in
            rig.simulator.control.set {
                $0.latencyMilliseconds = 100
                $0.rules = [Rule(.goAway(GoAway(lastStream: .graceful)), skip: 50, times: 1)]
            }
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 400])
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 400])
        }
    }

    @Test func `a message that ends every connection waits by itself, and the others arrive`() async throws {
        try await withAPNs(devices: 2_000) { rig, _, devices in
            rig.simulator.control.add(
                Rule(.goAway(GoAway(lastStream: .zero, then: .keepOpen)), tokenPrefix: DeliveryRig.tokens(2_000)[700])
            )
            let job = try await rig.addJob("shop", devices: devices)
            let log = try LogCapture()
            let logger = Logger(level: .warning, output: log.output)
            try await rig.deliver {
                $0.logger = logger
            } _: { _ in
                let isDelayed = try await waitUntilDelayed(rig)
                #expect(isDelayed)
                let remaining = try await rig.remaining(job)
                #expect(remaining == 1)
            }
            #expect(try await rig.texts("SELECT reason FROM peal.batch_delayed") == ["stream_refused"])
            #expect(try await rig.outcomes(job) == ["accepted": 1_999])
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 1_999])
            #expect(log.text.contains("A message ends every connection that it goes over"))
        }
    }

    @Test(arguments: ["resend", "unknown"])
    func `case 111: requests without an answer end by the job's policy`(onDoubt: String) async throws {
        try await withAPNs(devices: 200) { rig, _, devices in
            rig.simulator.control.add(Rule(.silence, every: 50))
            let job = try await rig.addJob("shop", devices: devices) { $0.onDoubt = onDoubt }
            let log = try LogCapture()
            try await rig.deliver {
                $0.logger = Logger(level: .warning, output: log.output)
                $0.laneSettings[.campaign]?.requestTimeLimit = .milliseconds(500)
            } _: { service in
                if onDoubt == "resend" {
                    #expect(try await waitUntilDelayed(rig))
                    rig.simulator.control.reset()
                    try await rig.promoteAll()
                    service.wake(.campaign)
                }
                #expect(try await rig.waitUntilDone(job))
            }
            let expected: [String: Int64] =
                onDoubt == "resend" ? ["accepted": 200] : ["accepted": 196, "unknown:timed_out": 4]
            #expect(try await rig.outcomes(job) == expected)
            // Warned of once, however many they are.
            #expect(log.text.ranges(of: "does not answer messages in time").count == 1)
        }
    }

    @Test func `case 129: messages that hang are set aside with a counted attempt, and the others go out`() async throws
    {
        var options = SimulatorOptions()
        options.apns.streamsAfterAcceptance = 10
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            // One that opens the connection's streams, as many that hang as there are streams, and the others.
            let hanging = DeliveryRig.tokens(10, seed: 1)
            let tokens = DeliveryRig.tokens(1) + hanging + DeliveryRig.tokens(100, seed: 2)
            let devices = try await rig.addDevices(app, tokens: tokens)
            rig.simulator.control.add(Rule(.silence, tokenPrefix: String(hanging[0].dropLast(2))))
            let job = try await rig.addJob("shop", devices: devices)
            try await rig.deliver {
                $0.maximumConnectionsPerPool = 1
                $0.laneSettings[.campaign]?.requestTimeLimit = .milliseconds(300)
            } _: { _ in
                let isSetAside = try await waitUntilDelayed(rig)
                #expect(isSetAside)
            }
            #expect(try await rig.outcomes(job) == ["accepted": 101])
            #expect(try await rig.remaining(job) == 10)
            let waiting = try await rig.texts("SELECT DISTINCT attempt || ' ' || reason FROM peal.batch_delayed")
            #expect(waiting == ["2 timed_out"])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 135: a connection that breaks in the middle repeats only what had no answer`() async throws {
        try await withAPNs(devices: 100) { rig, _, devices in
            rig.simulator.control.set(rules: [
                Rule(.drop(.reset), delayMilliseconds: 500, skip: 40, times: 1), Rule(.silence, skip: 40),
            ])
            let job = try await rig.addJob("shop", devices: devices)
            try await rig.deliver { service in
                _ = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
                let done = try await rig.number("SELECT count(*) FROM peal.result")
                #expect(done == 40)
                rig.simulator.control.reset()
                try await rig.promoteAll()
                service.wake(.campaign)
                #expect(try await rig.waitUntilDone(job))
            }
            #expect(try await rig.outcomes(job) == ["accepted": 100])
            #expect(try await rig.number("SELECT count(*) FROM peal.result WHERE attempt = 1") == 40)
        }
    }

    @Test func `case 77: a provider's quota slows down and is not final`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let devices = try await rig.addDevices(app, tokens: ["a", "b"], channel: "android")
            rig.simulator.control.add(Rule(.fault(.quota)))
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            try await rig.deliver { _ in
                let isDelayed = try await waitUntilDelayed(rig)
                #expect(isDelayed)
            }
            #expect(try await rig.remaining(job) == 2)
            #expect(try await rig.texts("SELECT DISTINCT reason FROM peal.batch_delayed") == ["QUOTA_EXCEEDED"])
        }
    }
}
