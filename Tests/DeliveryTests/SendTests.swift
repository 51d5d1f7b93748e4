import Delivery
import Postgres
import ProviderSimulator
import PushCore
import Testing

@Suite struct SendTests {
    @Test func `a campaign over APNs ends with one result a recipient`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(7_500))
            let job = try await rig.addJob("shop", devices: devices) { $0.batchSize = 2_500 }
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 7_500])
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 7_500])
            #expect(try await rig.accountingFaults() == 0)
            #expect(try await rig.number("SELECT vt FROM peal.lane_clock WHERE lane = 3") > 0)
        }
    }

    @Test func `case 106: a campaign over FCM keeps to 100 streams, and keeps each message's name`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addFCM(app)
            let tokens = (0..<1_000).map { "token-\($0):\"quoted\\" }
            let devices = try await rig.addDevices(app, tokens: tokens, channel: "android")
            rig.simulator.control.set { $0.latencyMilliseconds = 20 }
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .fcm }
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 1_000])
            let peaks = rig.simulator.ledger.connections().filter { $0.role == .fcm }.map(\.peakOpenStreams)
            #expect(peaks.allSatisfy { $0 <= 100 } && !peaks.isEmpty)
            #expect(
                rig.simulator.ledger.acceptedCountsByToken() == Dictionary(uniqueKeysWithValues: tokens.map { ($0, 1) })
            )
            let names = try await rig.texts(
                "SELECT DISTINCT provider_id FROM peal.result WHERE job_id = $1",
                [.job(job)]
            )
            #expect(names.count == 1_000)
            #expect(names.allSatisfy { $0.hasPrefix("projects/") })
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `a transactional push goes out with its headers and is written at once`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1))
            let job = try await rig.addJob("shop", devices: devices) {
                $0.lane = .transactional
                $0.collapseID = "order-1"
            }
            #expect(try await rig.send(job) { $0.lanes = [.transactional] })
            let request = try #require(rig.simulator.ledger.requests().first)
            #expect(request.topic == "com.example.app")
            #expect(request.pushType == "alert")
            #expect(request.collapseID == "order-1")
            let expected = try await rig.texts("SELECT peal.apns_id($1, $2)::text", [.job(job), .int64(devices[0])])
            #expect(request.messageID == expected.first)
            // Ours follows from job and device, so no row stores it.
            #expect(try await rig.number("SELECT count(*) FROM peal.result WHERE provider_id IS NULL") == 1)
            let shown = try await rig.texts(
                "SELECT provider_id FROM peal.recipient_result WHERE job_id = $1",
                [.job(job)]
            )
            #expect(shown == expected)
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `small batches that are looked up together keep apart whom they are for`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let other = try await rig.addApp("news")
            try await rig.addAPNs(other)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(40))
            let others = try await rig.addDevices(other, tokens: DeliveryRig.tokens(3, seed: 1))
            // 16, 16 and 8 of a page; a large batch between small ones; two days; one page that is gone.
            let sliced = try await rig.addJob("shop", devices: devices) { $0.batchSize = 16 }
            let large = try await rig.addJob("shop", devices: Array(devices[..<20]))
            let single = try await rig.addJob("shop", devices: [devices[7]])
            let old = try await rig.addJob("news", devices: others)
            let lost = try await rig.addJob("news", devices: [others[1]])
            _ = try await rig.query("DELETE FROM peal.audience_page WHERE job_id = $1", [.job(lost)])
            _ = try await rig.query("SELECT peal.make_partitions(3)")
            for row in [
                "audience_page SET audience_at = audience_at + '1 day' WHERE job_id",
                "job SET audience_at = audience_at + '1 day' WHERE id",
            ] {
                _ = try await rig.query("UPDATE peal.\(row) = $1", [.job(old)])
            }
            _ = try await rig.query("DELETE FROM peal.device WHERE id = $1", [.int64(devices[3])])
            _ = try await rig.query("UPDATE peal.device SET disabled_at = now() WHERE id = $1", [.int64(devices[30])])
            _ = try await rig.query(
                "UPDATE peal.device SET environment = 'sandbox' WHERE id = $1",
                [.int64(devices[7])]
            )
            _ = try await rig.query("DELETE FROM peal.device WHERE id = $1", [.int64(others[0])])
            for job in [sliced, large, single, old, lost] { #expect(try await rig.send(job)) }
            let skipped = ["skipped:unregistered": 1, "skipped:route_changed": 1] as [String: Int64]
            #expect(try await rig.outcomes(sliced) == skipped.merging(["accepted": 37, "skipped:disabled": 1]) { $1 })
            #expect(try await rig.outcomes(large) == skipped.merging(["accepted": 18]) { $1 })
            #expect(try await rig.outcomes(single) == ["skipped:route_changed": 1])
            #expect(try await rig.outcomes(old) == ["accepted": 2, "skipped:unregistered": 1])
            #expect(try await rig.outcomes(lost) == ["rejected:page_missing": 1])
            let reasons = try await rig.texts(
                "SELECT device_id || ' ' || reason FROM peal.result WHERE job_id = $1 AND reason <> '' ORDER BY device_id",
                [.job(sliced)]
            )
            #expect(
                reasons == ["\(devices[3]) unregistered", "\(devices[7]) route_changed", "\(devices[30]) disabled"]
            )
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `cases 4, 8, 9 and 13: what was inserted arrives to the byte`() async throws {
        var options = SimulatorOptions()
        options.keepsBodies = true
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            try await rig.addFCM(app)
            let content =
                #"{"body":"مرحبا 🎉","badge":0,"data":{"flag":true,"off":false,"one":1,"zero":0,"f":1.0,"order_id":21465,"#
                + #""vip":true,"meta":{"a":1}}}"#
            let ios = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1))
            let android = try await rig.addDevices(app, tokens: ["t1"], channel: "android")
            for (devices, route) in [(ios, Route.apnsProduction), (android, .fcm)] {
                let job = try await rig.addJob("shop", devices: devices) {
                    $0.content = content
                    $0.route = route
                }
                #expect(try await rig.send(job))
            }
            let bodies = rig.simulator.ledger.requests().filter { $0.role != .oauth }
                .map { String(decoding: $0.body ?? [], as: UTF8.self) }
            // The database orders the keys of data, and changes nothing else.
            #expect(
                bodies.first
                    == #"{"aps":{"alert":{"body":"مرحبا 🎉"},"badge":0},"f":1.0,"off":false,"one":1,"vip":true,"#
                    + #""flag":true,"meta":{"a":1},"zero":0,"order_id":21465}"#
            )
            let data =
                #""data":{"f":"1.0","off":"false","one":"1","vip":"true","flag":"true","meta":"{\"a\":1}","#
                + #""zero":"0","order_id":"21465"}"#
            #expect(bodies.last?.contains(data) == true)
            #expect(bodies.last?.contains(#""body":"مرحبا 🎉""#) == true)
        }
    }

    @Test func `cases 17, 23 and 25: a ttl of 0 and a collapse id reach both providers as they are`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            try await rig.addFCM(app)
            let ios = try await rig.addDevices(app, tokens: DeliveryRig.tokens(1))
            let android = try await rig.addDevices(app, tokens: ["t1"], channel: "android")
            let ids = (1...6).map { "k\($0)" }
            for (devices, route) in [(ios, Route.apnsProduction), (android, .fcm)] {
                for id in ids {
                    let job = try await rig.addJob("shop", devices: devices) {
                        $0.route = route
                        $0.ttl = 0
                        $0.collapseID = id
                    }
                    #expect(try await rig.send(job))
                    #expect(try await rig.outcomes(job) == ["accepted": 1])
                }
            }
            for (role, expiration) in [(ProviderRole.apnsProduction, "0"), (.fcm, "0s")] {
                let requests = rig.simulator.ledger.requests(role: role)
                #expect(requests.map(\.collapseID) == ids)
                #expect(requests.allSatisfy { $0.expiration == expiration })
            }
        }
    }

    @Test func `each recipient gets the text in its language`() async throws {
        var options = SimulatorOptions()
        options.keepsBodies = true
        try await DeliveryRig.with(options) { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            var devices: [Int64] = []
            for (seed, locale) in ["de-AT", "fr_FR", "xx"].enumerated() {
                devices += try await rig.addDevices(app, tokens: DeliveryRig.tokens(2, seed: seed + 1), locale: locale)
            }
            devices += try await rig.addDevices(app, tokens: DeliveryRig.tokens(2, seed: 9))
            let job = try await rig.addJob("shop", devices: devices) {
                $0.content = #"{"title": {"default": "Hello", "de": "Hallo", "fr": "Bonjour"}}"#
            }
            #expect(try await rig.send(job))
            let bodies = rig.simulator.ledger.requests().map { String(decoding: $0.body ?? [], as: UTF8.self) }
            #expect(bodies.filter { $0.contains("Hallo") }.count == 2)
            #expect(bodies.filter { $0.contains("Bonjour") }.count == 2)
            #expect(bodies.filter { $0.contains("Hello") }.count == 4)
        }
    }

    @Test func `recipients that cannot be reached are skipped, each with its reason`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(6))
            let job = try await rig.addJob("shop", devices: devices)
            _ = try await rig.query("DELETE FROM peal.device WHERE id = $1", [.int64(devices[1])])
            _ = try await rig.query(
                "UPDATE peal.device SET disabled_at = now(), disabled_reason = 'x' WHERE id = $1",
                [.int64(devices[2])]
            )
            _ = try await rig.query(
                "UPDATE peal.device SET token = NULL, voip_token = 'aa' WHERE id = $1",
                [.int64(devices[3])]
            )
            _ = try await rig.query(
                "UPDATE peal.device SET environment = 'sandbox' WHERE id = $1",
                [.int64(devices[4])]
            )
            _ = try await rig.query("UPDATE peal.device SET token = 'a b' WHERE id = $1", [.int64(devices[5])])
            #expect(try await rig.send(job))
            #expect(
                try await rig.outcomes(job) == [
                    "accepted": 1, "skipped:unregistered": 1, "skipped:disabled": 1, "skipped:no_token": 1,
                    "skipped:route_changed": 1, "skipped:malformed_token": 1,
                ]
            )
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `cases 61 and 62: a bad recipient costs the others nothing, and each row says whose it is and why`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let tokens = DeliveryRig.tokens(10)
            let devices = try await rig.addDevices(app, tokens: tokens)
            _ = try await rig.query("UPDATE peal.device SET external_id = 'user-' || id")
            _ = try await rig.query("UPDATE peal.device SET token = 'a b' WHERE id = $1", [.int64(devices[2])])
            rig.simulator.control.add(Rule(.reject(reason: "Unregistered", timestamp: .now), tokenPrefix: tokens[6]))
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            let rows = try await rig.texts(
                """
                SELECT concat_ws(
                    '|', r.external_id, r.channel, r.outcome, coalesce(r.reason, '-'), coalesce(r.http_status::text, '-'),
                    r.provider_id = peal.apns_id(r.job_id, r.device_id)::text, r.attempt,
                    r.recorded_at BETWEEN j.queued_at AND now()
                )
                FROM peal.recipient_result AS r JOIN peal.job AS j ON j.id = r.job_id
                WHERE r.job_id = $1 ORDER BY r.device_id
                """,
                [.job(job)]
            )
            let expected = devices.enumerated().map { index, device in
                switch index {
                case 2: "user-\(device)|ios|skipped|malformed_token|-|1|t"
                case 6: "user-\(device)|ios|rejected|Unregistered|410|1|t"
                default: "user-\(device)|ios|accepted|-|200|t|1|t"
                }
            }
            #expect(rows == expected)
        }
    }

    @Test func `a sparse audience is looked up by its ids`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(2_000))
            let sparse = devices.enumerated().filter { $0.offset % 40 == 3 }.map(\.element)
            let job = try await rig.addJob("shop", devices: sparse)
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 50])
            #expect(rig.simulator.ledger.totals.requests == 50)
        }
    }

    @Test func `a payload that is too large for one channel makes no request`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(3))
            let job = try await rig.addJob("shop", devices: devices)
            _ = try await rig.query(
                "UPDATE peal.job SET content = jsonb_build_object('title', repeat('x', 5000)) WHERE id = $1",
                [.job(job)]
            )
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["skipped:payload_too_large": 3])
            #expect(rig.simulator.ledger.totals.requests == 0)
        }
    }

    @Test func `case 66: ids that the provider gives are kept beside ours`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app, role: .apnsSandbox)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(2), environment: "sandbox")
            let job = try await rig.addJob("shop", devices: devices) { $0.route = .apnsSandbox }
            #expect(try await rig.send(job))
            let unique = try await rig.texts(
                "SELECT provider_unique_id FROM peal.result WHERE job_id = $1",
                [.job(job)]
            )
            #expect(unique.count == 2)
            #expect(unique.allSatisfy { UUIDValue($0) != nil })
        }
    }
}
