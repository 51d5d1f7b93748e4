import Postgres
import ProviderSimulator
import PushCore
import Testing

@Suite struct SendTests {
    @Test func `a campaign over APNs ends with one result a recipient`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(2_500))
            let job = try await rig.addJob("shop", devices: devices)
            #expect(try await rig.send(job))
            #expect(try await rig.outcomes(job) == ["accepted": 2_500])
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 2_500])
            #expect(try await rig.accountingFaults() == 0)
        }
    }
}
