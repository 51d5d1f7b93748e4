import ProviderSimulator
import Testing

@Suite struct RuleTests {
    private let fixture: Fixture
    private let token: String

    init() throws {
        fixture = try Fixture()
        token = try fixture.providerToken()
    }

    private func statuses(_ client: RawClient, _ words: [String]) throws -> [Int] {
        try words.map { word in
            try client.answer(
                "POST",
                Fixture.path(Fixture.token(word)),
                headers: try fixture.alertHeaders(token: token),
                body: Fixture.alert
            ).status
        }
    }

    @Test func `a rule acts n times, after skipping some`() throws {
        fixture.simulator.control.set(rules: [Rule(.reject(reason: "InternalServerError"), skip: 1, times: 2)])
        #expect(try statuses(try fixture.connect(), ["ab", "ab", "ab", "ab"]) == [200, 500, 500, 200])
    }

    @Test func `a rule acts on each third request`() throws {
        fixture.simulator.control.set(rules: [Rule(.reject(reason: "ServiceUnavailable"), skip: 2, every: 3)])
        #expect(
            try statuses(try fixture.connect(), Array(repeating: "ab", count: 6)) == [200, 200, 503, 200, 200, 503]
        )
    }

    @Test func `turns are counted per token`() throws {
        fixture.simulator.control.set(rules: [Rule(.reject(reason: "InternalServerError"), scope: .token, times: 1)])
        #expect(try statuses(try fixture.connect(), ["ab", "ac", "ab", "ac"]) == [500, 500, 200, 200])
    }

    @Test func `turns are counted per connection`() throws {
        fixture.simulator.control.set(rules: [
            Rule(.reject(reason: "InternalServerError"), scope: .connection, times: 1)
        ])
        #expect(try statuses(try fixture.connect(), ["ab", "ab"]) == [500, 200])
        #expect(try statuses(try fixture.connect(), ["ab", "ab"]) == [500, 200])
    }

    @Test func `the first rule that matches decides, and a later one can refuse the rest`() throws {
        fixture.simulator.control.set(rules: [
            Rule(.accept, tokenPrefix: "AB"),
            Rule(.reject(reason: "BadDeviceToken"), role: .apnsProduction),
        ])
        #expect(try statuses(try fixture.connect(), ["ab", "ac"]) == [200, 400])
    }

    @Test func `a rule may name a topic`() throws {
        fixture.simulator.control.set(rules: [Rule(.reject(reason: "DeviceTokenNotForTopic"), topic: "com.example.app")]
        )
        #expect(try statuses(try fixture.connect(), ["ab"]) == [400])
        fixture.simulator.control.set(rules: [Rule(.reject(reason: "DeviceTokenNotForTopic"), topic: "com.example.ap")])
        #expect(try statuses(try fixture.connect(), ["ab"]) == [200])
    }

    @Test func `a rule may last until the provider token changes`() throws {
        fixture.simulator.control.set(rules: [Rule(.reject(reason: "ExpiredProviderToken"), untilBearerChanges: true)])
        #expect(try statuses(try fixture.connect(), ["ab", "ab"]) == [403, 403])
        let fresh = try fixture.alertHeaders(token: try fixture.providerToken())
        let answer = try fixture.connect().answer(
            "POST",
            Fixture.path(Fixture.token()),
            headers: fresh,
            body: Fixture.alert
        )
        #expect(answer.status == 200)
    }

    @Test func `a token word runs out by itself`() throws {
        let client = try fixture.connect()
        #expect(try statuses(client, Array(repeating: "f12505000002", count: 4)) == [500, 500, 200, 200])
        #expect(try statuses(client, Array(repeating: "f1250503", count: 2)) == [503, 200])
        #expect(try statuses(client, Array(repeating: "f1250403", count: 2)) == [403, 403])
    }

    @Test func `tokens of one environment only`() throws {
        #expect(try statuses(try fixture.connect(.apnsProduction), ["5a4d0001", "940d0001"]) == [400, 200])
        #expect(try statuses(try fixture.connect(.apnsSandbox), ["5a4d0001", "940d0001"]) == [200, 400])
    }

    @Test func `numbered words give each reason`() throws {
        let client = try fixture.connect()
        #expect(try statuses(client, ["bad40002", "bad41301", "bad42902", "bad50001"]) == [400, 413, 429, 500])
    }

    @Test func `adding a rule keeps the turns of the others`() throws {
        let client = try fixture.connect()
        fixture.simulator.control.set(rules: [Rule(.reject(reason: "InternalServerError"), times: 2)])
        #expect(try statuses(client, ["ab"]) == [500])
        fixture.simulator.control.add(Rule(.reject(reason: "BadDeviceToken"), tokenPrefix: "cc"))
        #expect(try statuses(client, ["cc", "ab", "ab"]) == [400, 500, 200])
    }
}
