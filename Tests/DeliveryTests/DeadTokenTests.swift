import Delivery
import Postgres
import ProviderSimulator
import PushCore
import Telemetry
import TestSupport
import Testing

@Suite struct DeadTokenTests {
    private func disabled(_ rig: DeliveryRig) async throws -> [String: String] {
        let rows = try await rig.query("SELECT token, disabled_reason FROM peal.device WHERE disabled_at IS NOT NULL")
        return Dictionary(uniqueKeysWithValues: try rows.indices.map { (try rows.text($0, 0), try rows.text($0, 1)) })
    }

    @Test func `case 33: one bad token of 500 is disabled and costs the others nothing`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let tokens = DeliveryRig.tokens(500)
            let devices = try await rig.addDevices(app, tokens: tokens)
            rig.simulator.control.add(Rule(.reject(reason: "BadDeviceToken"), tokenPrefix: tokens[250]))
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 499, "rejected:BadDeviceToken": 1])
            #expect(try await disabled(rig) == [tokens[250]: "BadDeviceToken"])

            let next = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(next))
            #expect(try await rig.outcomes(next) == ["accepted": 499, "skipped:disabled": 1])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 44: a token in the wrong environment is disabled with its reason, and a registration repairs it`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app, role: .apnsProduction)
            try await rig.addAPNs(app, role: .apnsSandbox)
            // Production takes it, the sandbox does not.
            let token = "940d0001" + String(repeating: "a", count: 56)
            let tokens = [token] + DeliveryRig.tokens(9)
            let devices = try await rig.addDevices(app, tokens: tokens, environment: "sandbox")
            let first = try await rig.addJob("shop", devices: devices) { $0.route = .apnsSandbox }
            #expect(try await rig.send(first))
            #expect(try await rig.outcomes(first) == ["accepted": 9, "rejected:BadDeviceToken": 1])
            let broken = try await rig.texts(
                "SELECT environment || ' ' || disabled_reason FROM peal.device WHERE disabled_at IS NOT NULL"
            )
            #expect(broken == ["sandbox BadDeviceToken"])
            let registered = try await rig.number(
                "SELECT peal.register_device('shop', jsonb_build_object("
                    + "'channel', 'ios', 'token', $1::text, 'environment', 'production'))",
                [.text(token)]
            )
            #expect(registered == devices[0])
            let second = try await rig.addJob("shop", devices: [registered])
            #expect(try await rig.send(second))
            #expect(try await rig.outcomes(second) == ["accepted": 1])
            let roles = rig.simulator.ledger.requests(token: token).map(\.role)
            #expect(roles == [.apnsSandbox, .apnsProduction])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 46: three words for a dead token are final, and none is sent again`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let tokens = DeliveryRig.tokens(13)
            let devices = try await rig.addDevices(app, tokens: tokens)
            let reasons = ["Unregistered", "BadDeviceToken", "DeviceTokenNotForTopic"]
            for (token, reason) in zip(tokens, reasons) {
                rig.simulator.control.add(Rule(.reject(reason: reason, timestamp: .now), tokenPrefix: token))
            }
            let job = try await rig.addJob("shop", devices: devices) { $0.lane = .transactional }
            #expect(try await rig.send(job) { $0.lanes = [.transactional] })
            #expect(rig.simulator.ledger.totals.requests == 13)
            #expect(try await disabled(rig) == Dictionary(uniqueKeysWithValues: zip(tokens, reasons)))
        }
    }

    @Test func `promise 8: a token that was registered after the provider's word keeps its device`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let tokens = DeliveryRig.tokens(2)
            let devices = try await rig.addDevices(app, tokens: tokens)
            rig.simulator.control.add(Rule(.reject(reason: "Unregistered", timestamp: .secondsAgo(3_600))))
            _ = try await rig.query("UPDATE peal.device SET registered_at = now() WHERE id = $1", [.int64(devices[0])])
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            #expect(try await disabled(rig) == [tokens[1]: "Unregistered"])
        }
    }

    @Test func `promise 8: a token that was replaced meanwhile keeps its device`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1))
            rig.simulator.control.add(Rule(.reject(reason: "Unregistered", timestamp: .now), delayMilliseconds: 500))
            let job = try await rig.addJob("shop", devices: devices)
            try await rig.deliver { _ in
                #expect(await rig.simulator.ledger.waitUntil(1))
                _ = try await rig.query("UPDATE peal.device SET token = 'abab' WHERE id = $1", [.int64(devices[0])])
                #expect(try await rig.waitUntilDone(job))
            }
            #expect(try await disabled(rig).isEmpty)
        }
    }

    @Test(arguments: [
        ("BadTopic", 400), ("PayloadEmpty", 400), ("BadPriority", 400), ("PayloadTooLarge", 413), ("BadPath", 404),
        ("TopicDisallowed", 400), ("InvalidProviderToken", 403), ("Forbidden", 403), ("MadeUp", 400),
    ])
    func `promise 8, case 72: a fault of payload or credential leaves the device alone and is not repeated`(
        reason: String,
        status: Int
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(3))
            rig.simulator.control.add(Rule(.reject(reason: reason, status: status)))
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["rejected:\(reason)": 3])
            #expect(try await disabled(rig).isEmpty)
            // A credential is asked once more before all of it is given up.
            let isOfCredential = status == 403 || ["BadTopic", "TopicDisallowed"].contains(reason)
            let counts = rig.simulator.ledger.countsByToken()
            #expect(isOfCredential ? counts.values.reduce(0, +) <= 4 : counts.values.sorted() == [1, 1, 1])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 8: when every token seems dead the channel is held and no device is disabled`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(3_000))
            rig.simulator.control.add(Rule(.reject(reason: "BadDeviceToken")))
            let job = try await rig.addJob("shop", devices: devices) { $0.batchSize = 500 }
            try await rig.deliver { _ in
                let isSo = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
                #expect(isSo)
            }
            #expect(try await disabled(rig).isEmpty)
            #expect(try await rig.remaining(job) > 1_000)
            let reasons = try await rig.texts("SELECT DISTINCT reason FROM peal.batch_delayed")
            #expect(reasons == ["too_many_dead_tokens"])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 9: a device that somebody has locked holds up nobody, and is disabled afterwards`() async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let other = try await rig.addApp("talk")
            try await rig.addAPNs(other)
            let tokens = DeliveryRig.tokens(2)
            let devices = try await rig.addDevices(app, tokens: tokens)
            let others = try await rig.addDevices(other, tokens: DeliveryRig.tokens(500, seed: 1))
            rig.simulator.control.add(Rule(.reject(reason: "Unregistered", timestamp: .now), tokenPrefix: tokens[0]))
            rig.simulator.control.add(Rule(.reject(reason: "Unregistered", timestamp: .now), tokenPrefix: tokens[1]))
            let blocker = try await rig.hold("SELECT FROM peal.device WHERE id = \(devices[0]) FOR UPDATE")
            let dead = try await rig.addJob("shop", devices: devices)
            try await rig.deliver { service in
                #expect(try await rig.waitUntilDone(dead))
                // Who is not locked need not wait for it either.
                #expect(try await rig.wait { try await disabled(rig) == [tokens[1]: "Unregistered"] })
                let push = try await rig.addJob("talk", devices: [others[0]])
                service.wake(.campaign)
                // A statement that waits for a lock may wait for 30 seconds.
                #expect(try await rig.waitUntilDone(push, upTo: .seconds(10)))
                #expect(try await rig.outcomes(push) == ["accepted": 1])

                rig.simulator.control.set { $0.latencyMilliseconds = 300 }
                let stopped = try await rig.addJob("talk", devices: others) { $0.batchSize = 100 }
                service.wake(.campaign)
                #expect(await rig.simulator.ledger.waitUntil(4))
                _ = try await rig.query("SELECT peal.cancel_job($1)", [.job(stopped)])
                await service.checkControl()
                let isStopped = try await rig.wait(upTo: .seconds(10)) {
                    _ = try await rig.query("SELECT peal.sweep_ended_jobs(10, 50000)")
                    return try await rig.remaining(stopped) == 0
                }
                #expect(isStopped)
                #expect(try await rig.outcomes(stopped)["cancelled", default: 0] > 0)

                await blocker.close()
                #expect(try await rig.wait { try await disabled(rig).count == 2 })
            }
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 9: a verdict that somebody has locked holds up nobody, and comes afterwards`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let other = try await rig.addApp("talk")
            try await rig.addAPNs(other)
            let tokens = DeliveryRig.tokens(10)
            let devices = try await rig.addDevices(app, tokens: tokens)
            let gone = DeliveryRig.tokens(1, seed: 1)
            let others = try await rig.addDevices(other, tokens: gone)
            rig.simulator.control.add(Rule(.reject(reason: "BadDeviceToken"), tokenPrefix: tokens[4]))
            rig.simulator.control.add(Rule(.reject(reason: "Unregistered", timestamp: .now), tokenPrefix: gone[0]))
            let first = try await rig.addJob("shop", devices: [devices[0]])
            try await rig.deliver { service in
                #expect(try await rig.waitUntilDone(first))
                #expect(try await rig.wait { try await rig.number("SELECT count(*) FROM peal.token_verdict") == 1 })
                let blocker = try await rig.hold("SELECT FROM peal.token_verdict FOR UPDATE")
                let job = try await rig.addJob("shop", devices: devices)
                service.wake(.campaign)
                #expect(try await rig.waitUntilDone(job))
                // The worker finds the lock again and again by now.
                let hasTried = try await rig.wait {
                    try await rig.number(
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                            + "AND query LIKE '-- Adds what was seen%' AND wait_event_type = 'Lock'"
                    ) > 0
                }
                #expect(hasTried)
                let push = try await rig.addJob("shop", devices: [devices[0]])
                let dead = try await rig.addJob("talk", devices: others)
                service.wake(.campaign)
                #expect(try await rig.waitUntilDone(push, upTo: .seconds(10)))
                #expect(try await rig.outcomes(push) == ["accepted": 1])
                #expect(try await rig.waitUntilDone(dead, upTo: .seconds(10)))
                // What needs no verdict does not wait for one.
                #expect(try await rig.wait { try await disabled(rig) == [gone[0]: "Unregistered"] })
                await blocker.close()
                #expect(try await rig.wait { try await disabled(rig)[tokens[4]] == "BadDeviceToken" })
            }
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test(arguments: [
        (FCMFault.unregistered, "UNREGISTERED", true), (.invalidToken, "INVALID_ARGUMENT", true),
        (.invalidField, "INVALID_ARGUMENT", false), (.tooBig, "INVALID_ARGUMENT", false),
        (.senderMismatch, "SENDER_ID_MISMATCH", true), (.thirdPartyAuth, "THIRD_PARTY_AUTH_ERROR", false),
    ])
    func `cases 49, 50, 53: what FCM says of one token decides about that one`(
        fault: FCMFault,
        reason: String,
        isDead: Bool
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let tokens = (0..<10).map { "plain-\($0)" }
            let devices = try await rig.addDevices(app, tokens: tokens, channel: "android")
            rig.simulator.control.add(Rule(.fault(fault), tokenPrefix: tokens[4]))
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 9, "rejected:\(reason)": 1])
            #expect(try await disabled(rig) == (isDead ? [tokens[4]: reason] : [:]))
        }
    }

    @Test(arguments: [FCMFault.invalidToken, .invalidTokenField])
    func `a token that FCM refuses once, and takes in a minimal message, keeps its device`(fault: FCMFault) async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let tokens = (0..<10).map { "plain-\($0)" }
            let devices = try await rig.addDevices(app, tokens: tokens, channel: "android")
            rig.simulator.control.set(rules: [
                Rule(.fault(fault), tokenPrefix: tokens[4], times: 1), Rule(.fault(fault), tokenPrefix: tokens[5]),
            ])
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 8, "rejected:INVALID_ARGUMENT": 2])
            #expect(try await disabled(rig) == [tokens[5]: "INVALID_ARGUMENT"])
        }
    }

    @Test func `tokens about which FCM is asked and does not answer hold up no other dead token`() async throws {
        try await DeliveryRig.with { rig in
            let silent = try await rig.addApp("silent")
            try await rig.addFCM(silent)
            let other = try await rig.addApp("talk")
            try await rig.addFCM(other)
            let doubtful = (0..<45).map { "doubt-\($0)" }
            let suspects = try await rig.addDevices(
                silent,
                tokens: (0..<200).map { "plain-\($0)" } + doubtful,
                channel: "android"
            )
            let gone = (0..<5).map { "gone-\($0)" }
            let others = try await rig.addDevices(other, tokens: ["there"] + gone, channel: "android")
            rig.simulator.control.set(rules: [
                Rule(.fault(.invalidToken), tokenPrefix: "doubt-", scope: .token, times: 1),
                Rule(.silence, tokenPrefix: "doubt-"), Rule(.fault(.unregistered), tokenPrefix: "gone-"),
            ])
            let first = try await rig.addJob("silent", devices: suspects) { $0.route = .fcm }
            try await rig.deliver { service in
                #expect(try await rig.waitUntilDone(first))
                #expect(try await rig.wait { rig.simulator.ledger.requests().contains(where: \.validateOnly) })
                let second = try await rig.addJob("talk", devices: others) { $0.route = .fcm }
                service.wake(.campaign)
                #expect(try await rig.waitUntilDone(second))
                let expected = Dictionary(uniqueKeysWithValues: gone.map { ($0, "UNREGISTERED") })
                #expect(try await rig.wait { try await disabled(rig) == expected })
            }
            let questions = rig.simulator.ledger.requests().filter(\.validateOnly)
            #expect(questions.count <= 20, "after the first that has no answer no more are asked")
            #expect(try await disabled(rig).count == gone.count)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `a refusal that somebody has to mend is warned of once, not for each recipient`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let tokens = (0..<200).map { "plain-\($0)" }
            let devices = try await rig.addDevices(app, tokens: tokens, channel: "android")
            rig.simulator.control.add(Rule(.fault(.thirdPartyAuth), every: 2))
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            let log = try LogCapture()
            let logger = Logger(level: .warning, output: log.output)
            #expect(try await rig.send(job) { $0.logger = logger })
            #expect(try await rig.outcomes(job) == ["accepted": 100, "rejected:THIRD_PARTY_AUTH_ERROR": 100])
            #expect(log.text.split(separator: "FCM cannot hand messages on").count == 2, "\(log.text)")
        }
    }

    @Test func `case 70: of five refusals only the dead token is disabled`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let tokens = DeliveryRig.tokens(4)
            let devices = try await rig.addDevices(app, tokens: tokens)
            let answers: [Behaviour] = [
                .reject(reason: "TooManyRequests"), .reject(reason: "PayloadTooLarge"),
                .reject(reason: "InternalServerError"), .reject(reason: "Unregistered", timestamp: .now),
            ]
            for (token, answer) in zip(tokens, answers) {
                rig.simulator.control.add(Rule(answer, tokenPrefix: token))
            }
            let job = try await rig.addJob("shop", devices: devices)
            try await rig.deliver { _ in
                let isSo = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
                #expect(isSo)
            }
            #expect(try await disabled(rig) == [tokens[3]: "Unregistered"])
            #expect(try await rig.remaining(job) == 2)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 54: throttling, silence and unavailability leave the device alone`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1))
            let job = try await rig.addJob("shop", devices: devices)
            let script: [Behaviour] = [
                .reject(reason: "TooManyRequests"), .silence, .reject(reason: "ServiceUnavailable"),
            ]
            try await rig.deliver {
                $0.laneSettings[.campaign]?.requestTimeLimit = .milliseconds(300)
            } _: { service in
                for behaviour in script {
                    rig.simulator.control.set(rules: [Rule(behaviour)])
                    #expect(try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch_delayed") == 1 })
                    rig.simulator.control.reset()
                    try await rig.promoteAll()
                    service.wake(.campaign)
                }
                #expect(try await rig.waitUntilDone(job))
            }
            #expect(try await rig.outcomes(job) == ["accepted": 1])
            #expect(try await rig.number("SELECT attempt FROM peal.result") == 4)
            #expect(try await disabled(rig).isEmpty)
        }
    }
}
