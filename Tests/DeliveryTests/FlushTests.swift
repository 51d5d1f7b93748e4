@testable import Delivery
import Postgres
import PushCore
import SQLText
import Testing

@Suite struct FlushTests {
    private let flusher = Flusher(lane: .campaign, slot: 0, lease: .seconds(30))

    /// Claims the only batch, as if its lease had ended.
    private func claim(_ rig: DeliveryRig) async throws -> ClaimedBatch {
        _ = try await rig.query("UPDATE peal.batch SET lease_until = '-infinity'")
        let rows = try await rig.connection.query(
            SQLText.deliveryClaimBatches[.campaign],
            [.int16(0), .int64(30_000), .int32(1), .int64(.min), .int32s([]), .int32(0)]
        )
        return try ClaimedBatch(rows, row: 0)
    }

    /// A batch of which every recipient was accepted.
    private func finish(_ row: ClaimedBatch, number: Int, devices: [Int64]) -> FlushPlan.Unit {
        var results = ResultRows()
        for device in devices { results.append(device: device, outcome: .accepted, status: 200, reason: .none) }
        return FlushPlan.Unit(
            number: number,
            row: row,
            done: Bitmap(count: row.size, isSet: true),
            flushedCount: row.done.setCount,
            sendingTo: row.sentTo,
            hasProgress: true,
            fate: .finish,
            results: results,
            delays: []
        )
    }

    private func plan(_ units: [FlushPlan.Unit]) -> FlushPlan {
        FlushPlan(units: units, jobs: [], commitsAsynchronously: false, reasons: ReasonTable())
    }

    @Test(arguments: [3, 300])
    func `promise 4: of two leases of one batch in one flush only the newer one's results are written`(
        count: Int
    ) async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(count))
            let job = try await rig.addJob("shop", devices: devices)
            let old = finish(try await claim(rig), number: 1, devices: devices)
            let new = finish(try await claim(rig), number: 2, devices: devices)
            let report = try await flusher.write(plan([old, new]), on: rig.connection)
            #expect(report.ours == [2])
            #expect(try await rig.outcomes(job) == ["accepted": Int64(count)])
            #expect(try await rig.accountingFaults() == 0)
        }
    }

    @Test func `the last results of a campaign do not wait for others to come`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(10))
            let job = try await rig.addJob("shop", devices: devices)
            try await rig.deliver {
                // A tenth of it passes during the test, and all of it never does.
                $0.laneSettings[.campaign]?.flushInterval = .seconds(50)
            } _: { _ in
                let isDone = try await rig.waitUntilDone(job, upTo: .seconds(40))
                #expect(isDone)
            }
            #expect(try await rig.outcomes(job) == ["accepted": 10])
        }
    }

    @Test func `a batch that is gone after a commit without an answer was ended by that commit`() async throws {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(3))
            _ = try await rig.addJob("shop", devices: devices)
            let stale = finish(try await claim(rig), number: 1, devices: devices)
            let row = try await claim(rig)
            let unit = finish(row, number: 2, devices: devices)
            let lost = try await flusher.remainder(of: plan([stale, unit]), on: rig.connection)
            #expect(lost.lost == [1] && lost.unwritten == [2] && lost.ended.isEmpty)
            _ = try await flusher.write(plan([unit]), on: rig.connection)
            let ended = try await flusher.remainder(of: plan([unit]), on: rig.connection)
            #expect(ended.ended == [2] && ended.lost.isEmpty && ended.unwritten.isEmpty)
        }
    }
}
