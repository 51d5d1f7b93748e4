import ProviderSimulator
import Testing

@Suite struct DeviceTests {
    private let fixture: Fixture
    private let bearer: String
    private var devices: DeviceRegistry { fixture.simulator.devices }

    init() throws {
        fixture = try Fixture()
        bearer = try fixture.providerToken()
    }

    @discardableResult
    private func push(
        _ client: RawClient,
        _ token: String = Fixture.token(),
        _ changes: [String: String?] = [:]
    ) throws -> RawClient.Answer {
        let headers = try fixture.alertHeaders(changes, token: bearer)
        return try client.answer("POST", Fixture.path(token), headers: headers, body: Fixture.alert)
    }

    private func message(_ client: RawClient, _ access: String, _ fields: String) throws -> RawClient.Answer {
        let body = "{\"message\":{\"token\":\"device\",\(fields)}}"
        return try client.answer("POST", fixture.sendPath, headers: fixture.bearer(access), body: body)
    }

    @Test func `APNs keeps the newest message for a device that is offline`() throws {
        let client = try fixture.connect()
        devices.set(SimulatedDevice(Fixture.token(), role: .apnsProduction, isOnline: false))
        for _ in 0..<3 { #expect(try push(client).status == 200) }
        #expect(try push(client, Fixture.token(), ["apns-expiration": "0"]).status == 200)
        #expect(devices.stored(for: Fixture.token(), role: .apnsProduction) == [3])
        #expect(devices.losses(of: Fixture.token(), role: .apnsProduction) == [.replaced: 2, .notStored: 1])
        devices.set(Fixture.token(), role: .apnsProduction, isOnline: true)
        #expect(devices.delivered(to: Fixture.token().uppercased(), role: .apnsProduction).map(\.number) == [3])
        #expect(devices.stored(for: Fixture.token(), role: .apnsProduction).isEmpty)
    }

    @Test func `what is stored is thrown away when its time is over`() throws {
        let client = try fixture.connect()
        devices.set(SimulatedDevice(Fixture.token(), role: .apnsProduction, isOnline: false))
        try push(client, Fixture.token(), ["apns-expiration": "\(Fixture.now + 60)"])
        fixture.simulator.clock.advance(by: .seconds(61))
        devices.set(Fixture.token(), role: .apnsProduction, isOnline: true)
        #expect(devices.delivered(to: Fixture.token(), role: .apnsProduction).isEmpty)
        #expect(devices.losses(of: Fixture.token(), role: .apnsProduction) == [.expired: 1])
    }

    @Test func `a device shows the newest of each collapse id, and every repetition without one`() throws {
        let client = try fixture.connect()
        devices.set(SimulatedDevice(Fixture.token(), role: .apnsProduction))
        for id in ["a", "b", "a", nil, nil] {
            try push(client, Fixture.token(), id.map { ["apns-collapse-id": $0] } ?? [:])
        }
        #expect(devices.delivered(to: Fixture.token(), role: .apnsProduction).count == 5)
        #expect(devices.shown(on: Fixture.token(), role: .apnsProduction).map(\.number) == [2, 3, 4, 5])
    }

    @Test func `a device belongs to one environment and one app, and may be dead`() throws {
        let client = try fixture.connect()
        devices.set(SimulatedDevice(Fixture.token("aa"), role: .apnsSandbox))
        devices.set(SimulatedDevice(Fixture.token("ab"), role: .apnsProduction, topic: "com.example.other"))
        devices.set(SimulatedDevice(Fixture.token("ac"), role: .apnsProduction, topic: "com.example.app"))
        devices.set(
            SimulatedDevice(Fixture.token("ad"), role: .apnsProduction, answer: .reject(reason: "ExpiredToken"))
        )
        #expect(try push(client, Fixture.token("aa")).text.contains("BadDeviceToken"))
        #expect(try push(client, Fixture.token("ab")).text.contains("DeviceTokenNotForTopic"))
        #expect(try push(client, Fixture.token("ac")).status == 200)
        #expect(try push(client, Fixture.token("ad")).status == 410)
        #expect(try push(client, Fixture.token("ae")).status == 200)
        let strict = try Fixture { $0.refusesUnknownDevices = true }
        let headers = try strict.alertHeaders(token: bearer)
        let unknown = try strict.connect().answer(
            "POST",
            Fixture.path(Fixture.token()),
            headers: headers,
            body: Fixture.alert
        )
        #expect(unknown.text.contains("BadDeviceToken"))
    }

    @Test func `what a GOAWAY excludes reaches no device`() throws {
        let client = try fixture.connect()
        try push(client)
        for word in ["de1ade1a9999", "0ff000030002"] {
            devices.set(SimulatedDevice(Fixture.token(word), role: .apnsProduction))
            let headers = try fixture.alertHeaders(token: bearer)
            _ = try client.send("POST", Fixture.path(Fixture.token(word)), headers: headers, body: Fixture.alert)
        }
        try client.pump { !client.goAways.isEmpty }
        try client.listen(milliseconds: 1000)
        #expect(client.isClosed)
        for word in ["de1ade1a9999", "0ff000030002"] {
            #expect(devices.delivered(to: Fixture.token(word), role: .apnsProduction).isEmpty)
        }
    }

    @Test func `FCM keeps four collapse keys and a hundred other messages`() throws {
        let client = try fixture.connect(.fcm)
        let access = try fixture.accessToken()
        devices.set(SimulatedDevice("device", role: .fcm, projectID: fixture.simulator.projectID, isOnline: false))
        for key in ["a", "b", "c", "d", "a", "e"] {
            let fields = "\"data\":{\"k\":\"v\"},\"android\":{\"collapse_key\":\"\(key)\"}"
            #expect(try message(client, access, fields).status == 200)
        }
        let afterKeys = devices.stored(for: "device", role: .fcm)
        #expect(afterKeys.count == 4 && afterKeys.last == fixture.simulator.ledger.totals.requests)
        #expect(devices.losses(of: "device", role: .fcm) == [.replaced: 2])
        for _ in 0..<100 { #expect(try message(client, access, "\"data\":{\"k\":\"v\"}").status == 200) }
        #expect(devices.stored(for: "device", role: .fcm).count == 104)
        #expect(try message(client, access, "\"data\":{\"k\":\"v\"}").status == 200)
        #expect(devices.losses(of: "device", role: .fcm)[.overflowed] == 101)
        let once = "\"data\":{\"k\":\"v\"},\"android\":{\"ttl\":\"0s\"}"
        #expect(try message(client, access, once).status == 200)
        #expect(devices.losses(of: "device", role: .fcm)[.notStored] == 1)
        devices.set("device", role: .fcm, isOnline: true)
        #expect(devices.delivered(to: "device", role: .fcm).count == 4)
    }

    @Test func `FCM delays collapsible messages after twenty, one in three minutes, but for ttl 0`() throws {
        let client = try fixture.connect(.fcm)
        let access = try fixture.accessToken()
        devices.set(SimulatedDevice("device", role: .fcm))
        let clock = fixture.simulator.clock
        for _ in 0..<22 {
            #expect(try message(client, access, "\"notification\":{\"title\":\"x\"}").status == 200)
        }
        #expect(devices.delivered(to: "device", role: .fcm).count == 20)
        let newest = fixture.simulator.ledger.totals.requests
        // Of those that wait in one place the newest counts.
        #expect(devices.losses(of: "device", role: .fcm) == [.replaced: 1])
        #expect(try message(client, access, "\"data\":{\"k\":\"v\"}").status == 200)
        let once = "\"notification\":{\"title\":\"x\"},\"android\":{\"ttl\":\"0s\"}"
        #expect(try message(client, access, once).status == 200)
        #expect(devices.delivered(to: "device", role: .fcm).count == 22)
        clock.advance(by: .seconds(179))
        #expect(devices.delivered(to: "device", role: .fcm).count == 22)
        clock.advance(by: .seconds(1))
        #expect(devices.delivered(to: "device", role: .fcm).map(\.number).last == newest)
        #expect(devices.stored(for: "device", role: .fcm).isEmpty)
    }
}
