@testable import Delivery
import Testing

@Suite struct AheadBudgetTests {
    @Test func `a pool alone gets its streams and three eighths of the limit`() {
        var budget = AheadBudget(limit: 4_000, streams: ["apns": 200], pace: ["apns": 4_000])
        #expect(budget.room(for: "apns") == 1_700)
        budget.add(1_700, to: "apns")
        #expect(budget.room(for: "apns") == 0)
        budget.add(-700, to: "apns")
        #expect(budget.room(for: "apns") == 700)
    }

    @Test func `pools that stand still leave something for each that comes`() {
        var pace: [Int: Int] = [:]
        for pool in 0..<40 { pace[pool] = 4_000 }
        var budget = AheadBudget(limit: 4_000, streams: [:], pace: pace)
        for pool in 0..<40 {
            let room = budget.room(for: pool)
            #expect(room >= 24, "pool \(pool)")
            budget.add(room, to: pool)
            #expect(budget.room(for: pool) == 0, "pool \(pool)")
        }
    }

    @Test(arguments: [LaneSettings.call, .transactional, .campaign].map(\.aheadLimit))
    func `promise 10: however many pools stand still, one that comes may send`(limit: Int) {
        let pools = 1_000
        var pace: [Int: Int] = [:]
        for pool in 0..<pools { pace[pool] = limit }
        var budget = AheadBudget(limit: limit, streams: [:], pace: pace)
        var doubt = 0
        for pool in 0..<pools {
            let room = budget.room(for: pool)
            #expect(room >= 1, "pool \(pool)")
            budget.add(room, to: pool)
            doubt += room
            #expect(budget.room(for: pool) == 0, "pool \(pool)")
        }
        #expect(doubt <= limit + pools)
    }

    @Test(arguments: [250, 750, 4_000])
    func `promise 3: the doubt is never more than the streams, the limit and one for each pool`(limit: Int) {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            var streams: [Int: Int] = [:]
            for pool in 0..<8 { streams[pool] = Int.random(in: 0...1_000, using: &random) }
            var budget = AheadBudget(limit: limit, streams: streams, pace: streams)
            var ahead = Array(repeating: 0, count: 8)
            var first = 0
            for _ in 0..<100 {
                let pool = Int.random(in: 0..<8, using: &random)
                if Bool.random(using: &random) {
                    let room = budget.room(for: pool)
                    budget.add(room, to: pool)
                    ahead[pool] += room
                } else if Bool.random(using: &random) {
                    let settled = Int.random(in: 0...ahead[pool], using: &random)
                    budget.add(-settled, to: pool)
                    ahead[pool] -= settled
                } else {
                    let window = budget.firstWindow(ofBatches: 2) * 2
                    budget.add(window, to: nil)
                    first += window
                }
                let doubt = ahead.reduce(first, +)
                #expect(doubt <= streams.values.reduce(limit, +) + streams.count)
            }
        }
    }

    @Test func `a pool that settles little has little ahead`() {
        let slow = AheadBudget(limit: 4_000, streams: ["apns": 40], pace: ["apns": 60])
        #expect(slow.room(for: "apns") == 100)
        #expect(slow.firstWindow(ofBatches: 2) == 30)
        let new = AheadBudget<String>(limit: 4_000, streams: [:], pace: [:])
        #expect(new.room(for: "apns") == 24)
        #expect(new.firstWindow(ofBatches: 2) == 24)
        #expect(AheadBudget<String>(limit: 750, streams: [:], pace: [:]).firstWindow(ofBatches: 64) == 4)
    }

    @Test func `first windows end where the shared part does`() {
        var budget = AheadBudget<String>(limit: 4_000, streams: [:], pace: ["apns": 4_000])
        #expect(budget.firstWindow(ofBatches: 2) == 750)
        budget.add(3_500, to: nil)
        #expect(budget.firstWindow(ofBatches: 2) == 0)
    }
}
