import Delivery
import OpenSSL
import Postgres
import ProviderSimulator
import PushCore
import Telemetry
import TestSupport
import Testing

@Suite struct CredentialTests {
    @Test func `case 84: a thousand messages carry one provider token, shared by all workers`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1_000))
            let job = try await rig.addJob("shop", devices: devices) { $0.batchSize = 100 }
            let first = try await rig.startWorker("first")
            let second = try await rig.startWorker("second")
            #expect(try await rig.waitUntilDone(job))
            await first.stop()
            await second.stop()
            #expect(Set(rig.simulator.ledger.requests().map(\.bearerHash)).count == 1)
            #expect(try await rig.number("SELECT count(*) FROM peal.provider_token") == 1)
        }
    }

    @Test func `case 38: a token in two apps is sent to with the key and topic of each`() async throws {
        try await DeliveryRig.with { rig in
            let tokens = DeliveryRig.tokens(1)
            for slug in ["shop", "talk"] {
                let app = try await rig.addApp(slug)
                try await rig.addAPNs(app, key: try rig.simulator.makeAPNsKey(), topic: "com.example.\(slug)")
                let job = try await rig.addJob(slug, devices: try await rig.addDevices(app, tokens: tokens))
                #expect(try await rig.send(job))
                #expect(try await rig.outcomes(job) == ["accepted": 1])
            }
            let requests = rig.simulator.ledger.requests()
            #expect(requests.map(\.topic) == ["com.example.shop", "com.example.talk"])
            #expect(Set(requests.map(\.bearerHash)).count == 2)
        }
    }

    @Test func `case 85: two topics of one key share one provider token`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(50))
            let plain = try await rig.addJob("shop", devices: devices) { $0.batchSize = 10 }
            let other = try await rig.addJob("shop", devices: devices) {
                $0.batchSize = 10
                $0.content = #"{"title": "x", "apns": {"headers": {"apns-topic": "com.example.app.watch"}}}"#
            }
            try await rig.deliver { _ in
                for job in [plain, other] {
                    let isDone = try await rig.waitUntilDone(job)
                    #expect(isDone)
                }
            }
            for job in [plain, other] { #expect(try await rig.outcomes(job) == ["accepted": 50]) }
            let requests = rig.simulator.ledger.requests()
            #expect(Set(requests.map(\.topic)) == ["com.example.app", "com.example.app.watch"])
            #expect(Set(requests.map(\.bearerHash)).count == 1)
        }
    }

    @Test func `case 89: a provider token that is called expired is renewed once and all messages arrive`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(200))
            rig.simulator.control.add(
                Rule(.reject(reason: "ExpiredProviderToken"), skip: 50, untilBearerChanges: true)
            )
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 200])
            #expect(Set(rig.simulator.ledger.requests().map(\.bearerHash)).count == 2)
            #expect(try await rig.number("SELECT max(attempt) FROM peal.result") == 1)
        }
    }

    @Test(arguments: ["fail", "hold"])
    func `case 90: a slow clock makes messages wait, and costs neither device nor credential`(
        policy: String
    )
        async throws
    {
        var options = SimulatorOptions()
        // The clock that moves here moves that interval too.
        options.apns.tokenUpdateIntervalSeconds = 0
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop", onCredentialFailure: policy)
            try await rig.addAPNs(app)
            rig.simulator.clock.advance(by: .seconds(5_400))
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(20))
            let job = try await rig.addJob("shop", devices: devices)
            let log = try LogCapture()
            let logger = Logger(level: .warning, output: log.output)
            try await rig.deliver {
                $0.logger = logger
                $0.laneSettings[.campaign]?.clockWait = .milliseconds(200)
            } _: { service in
                let isDelayed = try await rig.wait {
                    try await rig.texts("SELECT reason FROM peal.batch_delayed") == ["ExpiredProviderToken"]
                }
                #expect(isDelayed)
                #expect(try await rig.remaining(job) == 20)
                rig.simulator.clock.advance(by: .seconds(-5_400))
                let isDone = try await rig.wait {
                    try await rig.promoteAll()
                    service.wake(.campaign)
                    return try await rig.remaining(job) == 0
                }
                #expect(isDone)
            }
            #expect(try await rig.outcomes(job) == ["accepted": 20])
            #expect(try await rig.number("SELECT max(attempt) FROM peal.result") == 1)
            #expect(try await rig.texts("SELECT state FROM peal.credential") == ["active"])
            #expect(try await rig.number("SELECT count(*) FROM peal.device WHERE disabled_at IS NOT NULL") == 0)
            #expect(log.text.contains("clock") && log.text.contains("Date header"))
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 91: a refused credential is probed once, then the send fails and other apps go on`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("broken")
            let credential = try await rig.addAPNs(app, keyID: rig.simulator.teamID, teamID: rig.simulator.keyID)
            let other = try await rig.addApp("sound")
            try await rig.addAPNs(other)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(200))
            let others = try await rig.addDevices(other, tokens: DeliveryRig.tokens(200, seed: 1))
            let job = try await rig.addJob("broken", devices: devices)
            let sound = try await rig.addJob("sound", devices: others)
            try await rig.deliver { _ in
                let areDone = [try await rig.waitUntilDone(job), try await rig.waitUntilDone(sound)]
                #expect(areDone == [true, true])
            }
            #expect(try await rig.outcomes(job) == ["rejected:InvalidProviderToken": 200])
            #expect(try await rig.outcomes(sound) == ["accepted": 200])
            let requests = rig.simulator.ledger.requests().filter { $0.reason == "InvalidProviderToken" }
            // Some are on their way when the first refusal comes back, but not the whole send.
            #expect((2...50).contains(requests.count), "\(requests.count) requests were made with a refused key")
            let state = try await rig.texts(
                "SELECT state || ' ' || state_reason FROM peal.credential WHERE id = $1",
                [.credential(credential)]
            )
            #expect(state == ["refused InvalidProviderToken"])
            #expect(try await rig.number("SELECT count(*) FROM peal.device WHERE disabled_at IS NOT NULL") == 0)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 91: an app that says hold keeps its recipients until the credential is replaced`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop", onCredentialFailure: "hold")
            let wrong = try rig.simulator.makeAPNsKey()
            rig.simulator.revokeAPNsKey(wrong.keyID)
            try await rig.addAPNs(app, key: wrong)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(50))
            let job = try await rig.addJob("shop", devices: devices)
            try await rig.deliver { service in
                let isHeld = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch_delayed") == 1 }
                #expect(isHeld)
                #expect(try await rig.remaining(job) == 50)
                try await rig.addAPNs(app)
                try await rig.promoteAll()
                let isRead = try await rig.wait {
                    service.wake(.campaign)
                    return try await rig.remaining(job) == 0
                }
                if !isRead { try await rig.promoteAll() }
                #expect(try await rig.waitUntilDone(job))
            }
            #expect(try await rig.outcomes(job) == ["accepted": 50])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 91: what is held waits until shortly before its expiry, however long the wait`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop", onCredentialFailure: "hold")
            let wrong = try rig.simulator.makeAPNsKey()
            rig.simulator.revokeAPNsKey(wrong.keyID)
            try await rig.addAPNs(app, key: wrong)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(50))
            // The next look at a credential that is held comes after 60 seconds.
            let job = try await rig.addJob("shop", devices: devices) { $0.expiresIn = 50 }
            try await rig.deliver { service in
                let isOver = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
                #expect(isOver)
                #expect(try await rig.outcomes(job).isEmpty)
                #expect(try await rig.remaining(job) == 50)
                try await rig.addAPNs(app)
                try await rig.promoteAll()
                service.wake(.campaign)
                #expect(try await rig.waitUntilDone(job))
            }
            #expect(try await rig.outcomes(job) == ["accepted": 50])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `promise 8: a provider that is busy when it is asked about a credential has not accepted it`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop", onCredentialFailure: "hold")
            try await rig.addFCM(app)
            let devices = try await rig.addDevices(app, tokens: (0..<10).map { "t\($0)" }, channel: "android")
            // All are refused until the bearer is another; the first one that carries it is the probe.
            rig.simulator.control.set(rules: [
                Rule(.fault(.permissionDenied), role: .fcm, untilBearerChanges: true),
                Rule(.fault(.unavailable), role: .fcm, times: 1), Rule(.fault(.permissionDenied), role: .fcm),
                Rule(.accept, role: .oauth, delayMilliseconds: 300),
            ])
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            try await rig.deliver { _ in
                let isOver = try await rig.wait { try await rig.number("SELECT count(*) FROM peal.batch") == 0 }
                #expect(isOver)
            }
            #expect(try await rig.outcomes(job).isEmpty)
            #expect(try await rig.remaining(job) == 10)
            let reasons = try await rig.texts("SELECT DISTINCT reason FROM peal.batch_delayed ORDER BY 1")
            #expect(reasons == ["PERMISSION_DENIED", "UNAVAILABLE"])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 92: without an access token nothing is sent, and no recipient is blamed`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            rig.simulator.control.set {
                $0.oauth = .error("invalid_grant", description: "Token must be a short-lived token")
            }
            let devices = try await rig.addDevices(app, tokens: ["a", "b", "c"], channel: "android")
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            try await rig.deliver { service in
                let isDelayed = try await rig.wait {
                    try await rig.number("SELECT count(*) FROM peal.batch_delayed") == 1
                }
                #expect(isDelayed)
                #expect(try await rig.texts("SELECT reason FROM peal.batch_delayed") == ["invalid_grant"])
                #expect(rig.simulator.ledger.totals.requests(to: .fcm) == 0)
                rig.simulator.control.reset()
                let isDone = try await rig.wait(upTo: .seconds(30)) {
                    try await rig.promoteAll()
                    service.wake(.campaign)
                    return try await rig.remaining(job) == 0
                }
                #expect(isDone)
            }
            #expect(try await rig.outcomes(job) == ["accepted": 3])
            #expect(try await rig.number("SELECT max(attempt) FROM peal.result") == 1)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `an access token that FCM no longer takes is renewed once`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let devices = try await rig.addDevices(app, tokens: (0..<100).map { "t\($0)" }, channel: "android")
            let first = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            #expect(try await rig.send(first))
            rig.simulator.expireAccessTokens()
            let second = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            #expect(try await rig.send(second))
            #expect(try await rig.outcomes(second) == ["accepted": 100])
            #expect(rig.simulator.ledger.totals.requests(to: .oauth) == 2)
        }
    }

    @Test func `an access token that was refused is not taken from the database again when no new one is to be had`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let devices = try await rig.addDevices(app, tokens: (0..<300).map { "t\($0)" }, channel: "android")
            let first = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            #expect(try await rig.send(first))
            rig.simulator.control.set {
                $0.oauth = .error("invalid_grant", description: "Token must be a short-lived token")
            }
            rig.simulator.expireAccessTokens()
            let second = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            let log = try LogCapture()
            let logger = Logger(level: .warning, output: log.output)
            try await rig.deliver {
                $0.logger = logger
            } _: { service in
                let isDone = try await rig.wait(upTo: .seconds(40)) {
                    try await rig.promoteAll()
                    service.wake(.campaign)
                    return try await rig.remaining(second) == 0
                }
                #expect(isDone)
            }
            #expect(try await rig.outcomes(second) == ["rejected:invalid_grant": 300])
            // Those that were out when the first one was refused, and none of those that were tried after that.
            #expect(rig.simulator.ledger.requests().filter { $0.status == 401 }.count <= 100)
            #expect(!log.text.contains("could not be noted"), "the refusal was noted more often than the database can")
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `case 53: a project that forbids the account fails the send and touches no device`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            rig.simulator.control.add(Rule(.fault(.permissionDenied), role: .fcm))
            let devices = try await rig.addDevices(app, tokens: (0..<10).map { "t\($0)" }, channel: "android")
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["rejected:PERMISSION_DENIED": 10])
            #expect(try await rig.number("SELECT count(*) FROM peal.device WHERE disabled_at IS NOT NULL") == 0)
        }
    }

    @Test func `what was answered before a credential was given up has its status, and nothing else has one`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            rig.simulator.control.add(Rule(.fault(.notFoundHTML), role: .fcm))
            let tokens = (0..<200).map { "t\($0)" }
            let devices = try await rig.addDevices(app, tokens: tokens, channel: "android")
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["rejected:http_404": 200])
            let answered = Set(rig.simulator.ledger.requests().filter { $0.status == 404 }.map(\.token))
            #expect(!answered.isEmpty)
            let stated = try await rig.number("SELECT count(*) FROM peal.result WHERE http_status = 404")
            #expect(stated == Int64(answered.count))
            #expect(try await rig.number("SELECT count(http_status) FROM peal.result") == stated)
        }
    }

    @Test func `an app without a credential for the route is told so`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(4))
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["rejected:no_credential": 4])
            #expect(try await rig.accountingFaults() == 0)
        }
    }
}
