import Delivery
import Glibc
import Postgres
import ProviderSimulator
import PushCore
import Telemetry
import TestSupport
import Testing

@Suite struct LaneTests {
    @Test func `a slow provider costs no flushes that write nothing`() async throws {
        var options = SimulatorOptions()
        options.apns.streamsAfterAcceptance = 25
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(6_000))
            rig.simulator.control.set { $0.latencyMilliseconds = 50 }
            let job = try await rig.addJob("shop", devices: devices) { $0.batchSize = 1_000 }
            let commits = """
                SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()
                """
            let before = try await rig.number(commits)
            #expect(try await rig.send(job, upTo: .seconds(60)))
            // Sessions report what they did when they end: some hundred, where each batch in turn was asked for in vain
            // two thousand times a second.
            let flushes = try await rig.number(commits) - before
            #expect(flushes < 2_000, "\(flushes) transactions for 6,000 recipients")
            #expect(try await rig.outcomes(job) == ["accepted": 6_000])
        }
    }

    @Test func `promise 10: a call goes out beside a campaign that fills everything`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(20_000))
            let ring = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1, seed: 7))
            // The campaign's messages get no answer, so that its streams and places stay taken.
            rig.simulator.control.set(rules: [Rule(.silence, tokenPrefix: "ab00000", skip: 1)])
            _ = try await rig.addJob("shop", devices: devices) { $0.batchSize = 5_000 }
            try await rig.deliver {
                $0.lanes = Set(Lane.allCases)
            } _: { service in
                #expect(await rig.simulator.ledger.waitUntil(900, upTo: .seconds(20)))
                rig.simulator.control.set(rules: [
                    Rule(.accept, tokenPrefix: DeliveryRig.tokens(1, seed: 7)[0]), Rule(.silence),
                ])
                for lane in [Lane.call, .transactional] {
                    let job = try await rig.addJob("shop", devices: ring) { $0.lane = lane }
                    service.wake(lane)
                    #expect(try await rig.waitUntilDone(job, upTo: .seconds(10)))
                    #expect(try await rig.outcomes(job) == ["accepted": 1])
                }
            }
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 9: a provider that never answers one app does not hold another`() async throws {
        try await DeliveryRig.with { rig in
            let silent = try await rig.addApp("silent")
            try await rig.addAPNs(silent, role: .apnsSandbox)
            let brisk = try await rig.addApp("brisk")
            try await rig.addAPNs(brisk)
            rig.simulator.control.set { $0.ignoresNewConnections = [.apnsSandbox] }
            let many = try await rig.addDevices(silent, tokens: DeliveryRig.tokens(12_000), environment: "sandbox")
            let few = try await rig.addDevices(brisk, tokens: DeliveryRig.tokens(500))
            _ = try await rig.addJob("silent", devices: many) {
                $0.route = .apnsSandbox
                $0.batchSize = 1_000
            }
            try await rig.deliver(within: .zero) { service in
                let isClaimed = try await rig.wait {
                    try await rig.number("SELECT count(*) FROM peal.batch WHERE lease_until > now()") >= 6
                }
                #expect(isClaimed)
                let job = try await rig.addJob("brisk", devices: few) { $0.tag = 1_000_000 }
                service.wake(.campaign)
                #expect(try await rig.waitUntilDone(job, upTo: .seconds(10)))
            }
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 12: no token, payload or key reaches the log`() async throws {
        try await DeliveryRig.with { rig in
            let path = "/tmp/\(rig.database.name).log"
            let file = unsafe open(path, O_RDWR | O_CREAT | O_TRUNC, 0o600)
            defer {
                close(file)
                unsafe unlink(path)
            }
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            try await rig.addFCM(app)
            let tokens = DeliveryRig.tokens(20)
            let devices = try await rig.addDevices(app, tokens: tokens)
            let androids = try await rig.addDevices(
                app,
                tokens: ["secret-token-1", "secret-token-2"],
                channel: "android"
            )
            rig.simulator.control.set(rules: [
                Rule(.reject(reason: "Unregistered", timestamp: .now), tokenPrefix: tokens[3]),
                Rule(.reject(reason: "InvalidProviderToken"), tokenPrefix: tokens[4], times: 1),
                Rule(.drop(.reset), tokenPrefix: tokens[5], times: 1), Rule(.fault(.permissionDenied), role: .fcm),
            ])
            let content = #"{"title": "a secret title", "data": {"k": "a secret value"}}"#
            let ios = try await rig.addJob("shop", devices: devices) { $0.content = content }
            _ = try await rig.addJob("shop", devices: androids) {
                $0.route = .fcm
                $0.content = content
            }
            let logger = Logger(level: .trace, output: LogOutput(fileDescriptor: file))
            try await rig.deliver { configuration in
                configuration.logger = logger
                configuration.database.logger = logger
            } _: { _ in
                _ = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
            }
            _ = ios
            let log = try read(file)
            #expect(log.contains("credential"))
            let keyLines = rig.simulator.apnsKeyPEM.split(separator: "\n").dropFirst().dropLast().map(String.init)
            let secrets = tokens + ["secret-token", "a secret title", "a secret value", "eyJ"] + keyLines
            for secret in secrets { #expect(!log.contains(secret)) }
        }
    }

    private func read(_ file: Int32) throws -> String {
        lseek(file, 0, SEEK_SET)
        var text: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(file, $0.baseAddress, $0.count) }
            guard count > 0 else { return String(decoding: text, as: UTF8.self) }
            text += chunk[..<count]
        }
    }
}
