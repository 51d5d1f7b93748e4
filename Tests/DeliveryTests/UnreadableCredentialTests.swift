import Delivery
import OpenSSL
import Postgres
import ProviderSimulator
import PushCore
import Telemetry
import TestSupport
import Testing

/// Credentials that the master key of a worker does not open.
@Suite struct UnreadableCredentialTests {
    private func otherKey() throws -> SealingKey {
        try SealingKey(bytes: Array(repeating: 9, count: 32))
    }

    @Test func `messages that a worker has no key for stay ready for one that has`() async throws {
        try await DeliveryRig.with { rig in
            let otherKey = try otherKey()
            let foreign = try await rig.addApp("foreign")
            try await rig.addAPNs(foreign)
            let own = try await rig.addApp("own")
            try await rig.addAPNs(own, sealedUnder: otherKey)
            let foreignDevices = try await rig.addDevices(foreign, tokens: DeliveryRig.tokens(40))
            let ownDevices = try await rig.addDevices(own, tokens: DeliveryRig.tokens(40, seed: 1))
            let foreignJob = try await rig.addJob("foreign", devices: foreignDevices) {
                $0.batchSize = 1
                $0.expiresIn = 30
            }
            let ownJob = try await rig.addJob("own", devices: ownDevices) {
                $0.batchSize = 1
                $0.tag = 100
            }
            let other = try await rig.startWorker("other") {
                $0.masterKey = otherKey
                $0.credentialRefresh = .seconds(3_600)
            }
            #expect(try await rig.waitUntilDone(ownJob))
            #expect(try await rig.outcomes(ownJob) == ["accepted": 40])
            let isGivenBack = try await rig.wait {
                try await rig.number("SELECT count(*) FROM peal.batch WHERE lease_until = '-infinity'") == 40
            }
            #expect(isGivenBack)
            #expect(try await rig.number("SELECT count(*) FROM peal.batch_delayed") == 0)
            // One claim was enough to learn it, and was no sign of poison.
            #expect(try await rig.number("SELECT sum(lease_no) FROM peal.batch") <= 2)
            #expect(try await rig.number("SELECT sum(lease_no - settled_lease_no) FROM peal.batch") == 0)
            let good = try await rig.startWorker("good")
            #expect(try await rig.waitUntilDone(foreignJob))
            await good.stop()
            await other.stop()
            #expect(try await rig.outcomes(foreignJob) == ["accepted": 40])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `a worker looks again whether it has the key, and what nobody has one for expires`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(4))
            let job = try await rig.addJob("shop", devices: devices) { $0.expiresIn = 2 }
            let otherKey = try otherKey()
            try await rig.deliver {
                $0.masterKey = otherKey
            } _: { _ in
                let isDone = try await rig.waitUntilDone(job)
                #expect(isDone)
                #expect(try await rig.outcomes(job) == ["expired": 4])
                try await rig.addAPNs(app, sealedUnder: otherKey)
                let next = try await rig.addJob("shop", devices: devices)
                let isSent = try await rig.waitUntilDone(next)
                #expect(isSent)
                #expect(try await rig.outcomes(next) == ["accepted": 4])
            }
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `a channel whose credential does not open waits a moment, and the app's other channel goes on`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app, sealedUnder: try otherKey())
            try await rig.addFCM(app)
            let iPhones = try await rig.addDevices(app, tokens: DeliveryRig.tokens(4))
            let androids = try await rig.addDevices(app, tokens: ["a", "b"], channel: "android")
            let shut = try await rig.addJob("shop", devices: iPhones) { $0.expiresIn = 30 }
            try await rig.deliver { _ in
                let isDelayed = try await rig.wait {
                    try await rig.texts("SELECT reason FROM peal.batch_delayed") == ["credential_unreadable"]
                }
                #expect(isDelayed)
                let open = try await rig.addJob("shop", devices: androids) { $0.route = .fcm }
                let isDone = try await rig.waitUntilDone(open)
                #expect(isDone)
                #expect(try await rig.outcomes(open) == ["accepted": 2])
            }
            #expect(
                try await rig.number(
                    "SELECT count(*) FROM peal.batch_delayed WHERE due_at < now() + interval '10 seconds'"
                ) == 1
            )
            #expect(try await rig.remaining(shut) == 4)
        }
    }

    @Test func `a newer credential that does not open is passed over for an older one that does`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let newer = try await rig.addAPNs(app, sealedUnder: try otherKey())
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(4))
            let job = try await rig.addJob("shop", devices: devices)
            let log = try LogCapture()
            let logger = Logger(level: .warning, output: log.output)
            try await rig.deliver {
                $0.logger = logger
            } _: { _ in
                let isDone = try await rig.waitUntilDone(job)
                #expect(isDone)
            }
            #expect(try await rig.outcomes(job) == ["accepted": 4])
            #expect(log.text.contains("A credential cannot be opened and is passed over"), "\(log.text)")
            #expect(log.text.contains("credential \(newer)"), "\(log.text)")
        }
    }
}
