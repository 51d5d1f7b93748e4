import Delivery
import Postgres
import ProviderSimulator
import PushCore
import Testing

/// What a job's own content or one odd token brings about is no fault of the credential, nor of any device.
@Suite struct ContentBlameTests {
    private func isUntouched(_ rig: DeliveryRig) async throws -> Bool {
        let states = try await rig.texts("SELECT state FROM peal.credential")
        let disabled = try await rig.number("SELECT count(*) FROM peal.device WHERE disabled_at IS NOT NULL")
        return states == ["active"] && disabled == 0
    }

    @Test(arguments: ["TopicDisallowed", "BadTopic", "Forbidden", "DeviceTokenNotForTopic", "BadDeviceToken"])
    func `promise 8: what the topic of a job's own content brings about is the job's fault`(reason: String) async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(5))
            let before = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(before))
            rig.simulator.control.add(Rule(.reject(reason: reason), topic: "com.wrong.topic"))
            let wrong = try await rig.addJob("shop", devices: devices) {
                $0.content = #"{"title": "Hello", "apns": {"headers": {"apns-topic": "com.wrong.topic"}}}"#
            }
            #expect(try await rig.send(wrong))
            #expect(try await rig.outcomes(wrong) == ["rejected:\(reason)": 5])
            #expect(try await isUntouched(rig))
            let after = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(after))
            #expect(try await rig.outcomes(after) == ["accepted": 5])
        }
    }

    @Test(arguments: [1, 5])
    func `promise 9: one token that is answered oddly does not refuse the credential`(count: Int) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let tokens = DeliveryRig.tokens(count)
            let devices = try await rig.addDevices(app, tokens: tokens)
            rig.simulator.control.add(Rule(.body(status: 302, .empty), tokenPrefix: tokens[0]))
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            var expected: [String: Int64] = ["rejected:http_302": 1]
            if count > 1 { expected["accepted"] = Int64(count - 1) }
            #expect(try await rig.outcomes(job) == expected)
            #expect(try await isUntouched(rig))
            #expect(try await rig.accountingFaults() == 0)
        }
    }
}
