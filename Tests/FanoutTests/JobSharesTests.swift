import PushCore
import Testing

@testable import Fanout

@Suite struct JobSharesTests {
    private let a = AppID(1)
    private let b = AppID(2)

    private func jobs(_ apps: [AppID], lane: Lane = .campaign) -> [ClaimedJob] {
        apps.map { ClaimedJob(id: JobID(UUIDValue.random()), appID: $0, lane: lane, isFrozen: false) }
    }

    @Test func `promise 9: apps take turns, however many campaigns one of them has in hand`() {
        var shares = JobShares(places: 16)
        var inHand = [a, a, a, b, a]
        var served: [AppID] = []
        for _ in 0..<6 {
            let next = shares.next(among: inHand)
            served.append(inHand[next])
            inHand.append(inHand.remove(at: next))
        }
        #expect(served == [a, b, a, b, a, b])
    }

    @Test func `a quarter of the places is kept for other apps`() {
        let shares = JobShares(places: 16)
        #expect(shares.room(beside: Array(repeating: a, count: 11), of: .campaign).fullApps.isEmpty)
        let room = shares.room(beside: Array(repeating: a, count: 12) + [b], of: .campaign)
        #expect(room.fullApps == [a])
        #expect(room.limit == 3)
    }

    @Test func `a claim begins after the last app of the one before, in each kind of lane`() {
        var shares = JobShares(places: 16)
        shares.claimed(jobs([AppID(3), AppID(7), AppID(5)]))
        #expect(shares.room(beside: [], of: .campaign).after == AppID(7))
        #expect(shares.room(beside: [], of: .transactional).after == .none)
        // Round again: 9, then 1 and 2.
        shares.claimed(jobs([AppID(9), AppID(1), AppID(2)]))
        #expect(shares.room(beside: [], of: .campaign).after == AppID(2))
        shares.claimed(jobs([AppID(4)], lane: .call))
        #expect(shares.room(beside: [], of: .call).after == AppID(4))
        shares.claimed([])
        #expect(shares.room(beside: [], of: .campaign).after == AppID(2))
    }
}
