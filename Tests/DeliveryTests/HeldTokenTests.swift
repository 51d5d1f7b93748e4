import Delivery
import Postgres
import ProviderSimulator
import PushCore
import Testing

/// Words about tokens that a mistake of ours would bring about too, over time and over processes.
@Suite struct HeldTokenTests {
    private func disabled(_ rig: DeliveryRig) async throws -> [String] {
        try await rig.texts("SELECT token FROM peal.device WHERE disabled_at IS NOT NULL ORDER BY id")
    }

    /// Sends one push to one device, with a worker of its own unless one is given.
    private func push(
        _ rig: DeliveryRig,
        to device: Int64,
        route: Route = .apnsProduction,
        by worker: DeliveryService? = nil
    ) async throws {
        let job = try await rig.addJob("shop", devices: [device]) {
            $0.lane = .transactional
            $0.route = route
        }
        guard let worker else {
            #expect(try await rig.send(job) { $0.lanes = [.transactional] })
            return
        }
        worker.wake(.transactional)
        #expect(try await rig.waitUntilDone(job))
    }

    private func isHeld(_ rig: DeliveryRig) async throws -> Bool {
        try await rig.number("SELECT count(*) FROM peal.token_verdict WHERE held_since IS NOT NULL") == 1
    }

    @Test func `promise 8: two hundred single pushes under a wrong environment disable nobody`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(200))
            rig.simulator.control.add(Rule(.reject(reason: "BadDeviceToken")))
            // Every fourth push meets a worker that was started anew.
            for start in stride(from: 0, to: devices.count, by: 4) {
                try await rig.deliver {
                    $0.lanes = [.transactional]
                } _: { worker in
                    for device in devices[start..<start + 4] { try await push(rig, to: device, by: worker) }
                }
            }
            #expect(try await disabled(rig).isEmpty)
            #expect(try await isHeld(rig))
            #expect(try await rig.number("SELECT count(*) FROM peal.result WHERE outcome = 2") == 200)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 8: a dead token is disabled at the next rejection after a push was accepted`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let tokens = DeliveryRig.tokens(6)
            let devices = try await rig.addDevices(app, tokens: tokens)
            rig.simulator.control.add(Rule(.reject(reason: "BadDeviceToken"), tokenPrefix: tokens[0]))
            try await push(rig, to: devices[0])
            #expect(try await disabled(rig).isEmpty)
            #expect(try await isHeld(rig))
            for device in devices.dropFirst() { try await push(rig, to: device) }
            try await push(rig, to: devices[0])
            #expect(try await disabled(rig) == [tokens[0]])
            #expect(try await !isHeld(rig))
        }
    }

    @Test func `promise 8: UNREGISTERED is believed once the project has accepted a push`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let tokens = ["plain-0", "plain-1"]
            let devices = try await rig.addDevices(app, tokens: tokens, channel: "android")
            rig.simulator.control.add(Rule(.fault(.unregistered), tokenPrefix: tokens[0]))
            try await push(rig, to: devices[0], route: .fcm)
            #expect(try await disabled(rig).isEmpty)
            #expect(try await isHeld(rig))
            try await push(rig, to: devices[1], route: .fcm)
            #expect(try await !isHeld(rig))
            try await push(rig, to: devices[0], route: .fcm)
            #expect(try await disabled(rig) == [tokens[0]])
        }
    }

    @Test func `cases 49 and 50: a minimal message tells whether token or payload is refused`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let tokens = (0..<34).map { "plain-\($0 + 100)" }
            let devices = try await rig.addDevices(app, tokens: tokens, channel: "android")
            // A bad token: whatever is sent to it is refused in general words.
            rig.simulator.control.add(Rule(.fault(.invalidGeneric), tokenPrefix: tokens[0]))
            try await rig.deliver { _ in
                let job = try await rig.addJob("shop", devices: Array(devices[..<10])) { $0.route = .fcm }
                #expect(try await rig.waitUntilDone(job))
                #expect(try await rig.outcomes(job) == ["accepted": 9, "rejected:INVALID_ARGUMENT": 1])
                #expect(try await rig.wait { try await disabled(rig) == [tokens[0]] })
            }
            // A bad message: all of it is refused, and what asks about the tokens is not. No more recipients than the first
            // window of a batch, so that all are on their way before the first question.
            rig.simulator.control.set(rules: [Rule(.fault(.invalidGeneric), times: 24)])
            let before = rig.simulator.ledger.totals.requests(to: .fcm)
            try await rig.deliver { _ in
                let job = try await rig.addJob("shop", devices: Array(devices[10...])) { $0.route = .fcm }
                #expect(try await rig.waitUntilDone(job))
                #expect(try await rig.outcomes(job) == ["rejected:INVALID_ARGUMENT": 24])
                #expect(try await rig.wait { rig.simulator.ledger.totals.requests(to: .fcm) >= before + 44 })
            }
            #expect(rig.simulator.ledger.totals.requests(to: .fcm) == before + 44)
            #expect(try await disabled(rig) == [tokens[0]])
        }
    }

    @Test func `promise 8: what is said with a time needs no proof`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let tokens = DeliveryRig.tokens(1)
            let devices = try await rig.addDevices(app, tokens: tokens)
            rig.simulator.control.add(Rule(.reject(reason: "Unregistered", timestamp: .now)))
            try await push(rig, to: devices[0])
            #expect(try await disabled(rig) == tokens)
            #expect(try await !isHeld(rig))
        }
    }
}
