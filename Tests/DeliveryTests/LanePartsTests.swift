@testable import Delivery
import PushCore
import Testing

@Suite struct LanePartsTests {
    @Test func `the floor of the claim trails the clock and is left out now and then`() {
        var floor = ClaimFloor(lag: .seconds(4), sweepInterval: .seconds(10))
        let start = ContinuousClock.now
        let sweep = floor.floor(now: start)
        #expect(sweep == ClaimFloor.none)
        floor.note(clock: 100, now: start)
        floor.note(clock: 200, now: start + .seconds(2))
        let young = floor.floor(now: start + .seconds(3))
        #expect(young == ClaimFloor.none, "nothing is old enough")
        let old = floor.floor(now: start + .seconds(5))
        #expect(old == 100)
        floor.note(clock: 300, now: start + .seconds(7))
        let moved = floor.floor(now: start + .seconds(8))
        #expect(moved == 200)
        #expect(floor.hides(199, now: start + .seconds(8)) && !floor.hides(200, now: start + .seconds(8)))
        let again = floor.floor(now: start + .seconds(11))
        #expect(again == ClaimFloor.none)
        let back = floor.floor(now: start + .seconds(12))
        #expect(back == 200)
        floor.note(foundHidden: true, from: 200, ofAllApps: false, now: start + .seconds(12))
        for (second, ofAllApps) in [(13, false), (14, true)] {
            let next = floor.floor(now: start + .seconds(second))
            #expect(next == ClaimFloor.none, "one expired lease was found, so there may be more")
            floor.note(foundHidden: false, from: next, ofAllApps: ofAllApps, now: start + .seconds(second))
        }
        let end = floor.floor(now: start + .seconds(15))
        #expect(end == 200, "a claim that looked at all apps found no more")
        floor.note(foundHidden: true, from: 200, ofAllApps: false, now: start + .seconds(16))
        let last = floor.floor(now: start + .seconds(25))
        floor.note(foundHidden: false, from: last, ofAllApps: false, now: start + .seconds(25))
        let rested = floor.floor(now: start + .seconds(27))
        #expect(
            last == ClaimFloor.none && rested == 200,
            "an app that is left out for long must not keep the floor off"
        )
    }

    private func room(_ batches: [(app: Int32, messages: Int, isSlow: Bool)]) -> ClaimRoom {
        ClaimRoom(
            batches.map { ClaimRoom.Batch(app: AppID($0.app), messages: $0.messages, isSlow: $0.isSlow) },
            settings: .campaign
        )
    }

    @Test func `an app that has enough in hand leaves room for others`() {
        let many = room(Array(repeating: (1, 100, false), count: 6))
        #expect(many.limit > 0 && many.excludedApps == [AppID(1)])
        let large = room([(1, 15_000, false)])
        #expect(large.limit > 0 && large.excludedApps == [AppID(1)])
        #expect(room([(1, 100, false)]).excludedApps.isEmpty)
    }

    @Test func `promise 9: ten apps whose provider is silent leave a place for an eleventh`() {
        var hand: [ClaimRoom.Batch] = []
        // Each app has batches without end, and they come first in the fair order.
        while true {
            let room = ClaimRoom(hand, settings: .transactional)
            guard let app = (1...10).map({ AppID($0) }).first(where: { !room.excludedApps.contains($0) }),
                room.limit > 0
            else { break }
            hand += Array(repeating: ClaimRoom.Batch(app: app, messages: 1, isSlow: false), count: room.limit)
        }
        let room = ClaimRoom(hand, settings: .transactional)
        #expect(room.limit > 0)
        #expect(room.excludedApps == (1...10).map { AppID($0) })
    }

    @Test func `an app that is left to others is not claimed, and nothing is claimed anew for its sake`() {
        let room = ClaimRoom([ClaimRoom.Batch](), settings: .campaign, leavingOut: [AppID(1)])
        #expect(room.limit > 0 && room.excludedApps == [AppID(1)] && !room.leavesBehind)
        let hand = Array(repeating: ClaimRoom.Batch(app: AppID(2), messages: 100, isSlow: false), count: 6)
        let both = ClaimRoom(hand, settings: .campaign, leavingOut: [AppID(1)])
        #expect(both.excludedApps == [AppID(1), AppID(2)] && both.leavesBehind)
    }

    @Test func `slow batches take no places, but their app gets no more`() {
        let slow = room(Array(repeating: (1, 5_000, true), count: 20))
        #expect(slow.limit == LaneSettings.campaign.claimLimit)
        #expect(slow.excludedApps == [AppID(1)])
        #expect(room(Array(repeating: (1, 1, true), count: 64)).limit == 0, "there is an end to it all the same")
    }

    @Test func `waits of a batch fall into few groups`() {
        var delays = Delays()
        for index in 0..<100 {
            add(index, to: &delays, wait: .milliseconds(index * 10))
        }
        #expect(delays.groups.count <= 2)
        #expect(delays.groups.map { $0.done.count - $0.done.setCount }.reduce(0, +) == 100)
        for index in 0..<100 {
            add(index, to: &delays, wait: .seconds(3_000 + index))
        }
        #expect(delays.groups.count <= 4)
    }

    @Test func `a wait is rounded up, never down`() {
        for milliseconds in [1, 999, 1_000, 1_001, 3_999, 4_000, 7_777, 899_999] {
            var delays = Delays()
            let wait = Duration.milliseconds(milliseconds)
            add(0, to: &delays, wait: wait)
            guard case .after(let rounded) = delays.groups[0].due else { continue }
            #expect(rounded >= wait && rounded <= wait * 1.5 + .seconds(1))
        }
    }

    @Test(arguments: [33_000, 54_000, 899_999, 86_400_000])
    func `a wait is not rounded up beyond the last chance before the expiry`(milliseconds: Int) {
        var delays = Delays()
        let wait = Duration.milliseconds(milliseconds)
        add(0, to: &delays, wait: wait, timeLeft: wait + .seconds(3))
        guard case .after(let rounded) = delays.groups[0].due else { return }
        #expect(rounded >= wait && rounded <= wait + .seconds(2))
    }

    private func add(_ index: Int, to delays: inout Delays, wait: Duration, timeLeft: Duration = .seconds(1_000_000)) {
        delays.add(
            index,
            size: 100,
            due: .after(wait),
            timeLeft: timeLeft,
            attempt: 2,
            reason: .none,
            sentTo: 0
        )
    }

    @Test func `what is set aside as a whole comes back before its expiry, unless nothing can go out by then`() {
        func wait(_ wished: Int, atLeast minimum: Int = 0, left: Double) -> Duration? {
            Delay.wait(.seconds(wished), atLeast: .seconds(minimum), timeLeft: .seconds(left))
        }
        #expect(wait(60, left: 3_600) == .seconds(60))
        #expect(wait(60, left: 60.5) == .seconds(59) && wait(60, left: 2.5) == .seconds(1))
        #expect(wait(60, left: 1.9) == nil && wait(1, left: 0.5) == nil && wait(60, left: -5) == nil)
        #expect(wait(65, atLeast: 60, left: 63.5) == .seconds(62))
        #expect(wait(65, atLeast: 60, left: 60.5) == .seconds(60) && wait(65, atLeast: 60, left: 60) == nil)
    }

    @Test func `questions of one credential take half of the places, and none after one without an answer`() {
        func version(_ id: Int64) -> ProviderCredential.Version {
            ProviderCredential.Version(id: CredentialID(id), updatedAt: WallClock.Instant(microsecondsSinceEpoch: 0))
        }
        var questions = TokenQuestions<Int64>()
        for _ in 0..<50 { questions.add(1, of: version(1)) }
        var asked = 0
        while questions.next() != nil { asked += 1 }
        #expect(asked == 10)
        for _ in 0..<50 { questions.add(2, of: version(2)) }
        for _ in 0..<10 { #expect(questions.next() == 2) }
        #expect(questions.next() == nil)
        questions.answered(of: version(1))
        #expect(questions.next() == 1)
        for _ in 0..<10 { questions.unanswered(of: version(1)) }
        #expect(questions.next() == nil, "the other credential has its half")
        for _ in 0..<10 { questions.answered(of: version(2)) }
        #expect(questions.next() == 2)
        questions.unanswered(of: version(2))
        #expect(questions.isEmpty)
    }

    @Test func `reasons are kept short, clean and bounded`() {
        var table = ReasonTable()
        #expect(table.index(of: "") == .none)
        let index = table.index(of: "a\u{0}b\u{e9}")
        #expect(table[index] == "a?b??")
        #expect(table.index(of: "a\u{0}b\u{e9}") == index)
        let long = table.index(of: String(repeating: "x", count: 1_000))
        #expect(table[long].utf8.count == ReasonTable.lengthLimit)
        for number in 0..<10_000 { _ = table.index(of: "made up \(number)") }
        #expect(table[table.index(of: "one more")] == "other")
    }

    @Test(
        arguments: [
            ("https://api.push.apple.com", Endpoint(host: "api.push.apple.com")),
            ("https://localhost:2197/", Endpoint(host: "localhost", port: 2_197)),
            ("https://[::1]:443/token", Endpoint(host: "::1", path: "/token")), ("http://x", nil), ("https://", nil),
            ("https://x:0", nil), ("https://x:70000", nil), ("https://user@x", nil), ("x", nil),
        ] as [(String, Endpoint?)]
    )
    func `an endpoint is an https URL`(url: String, expected: Endpoint?) {
        #expect(Endpoint(url: url) == expected)
    }

    @Test func `a UUID is recognised in either case`() {
        let id = UUIDValue(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210)
        let text = id.description
        let texts = [text, text.uppercased(), "0123", text.replacing("f", with: "e")]
        #expect(texts.map { id.isSpelt(by: Array($0.utf8).span) } == [true, true, false, false])
    }

    @Test func `the token endpoint's answers are told apart`() throws {
        let now = WallClock.Instant(secondsSinceEpoch: 1_000)
        let good = #"{"access_token": "ya29.x", "expires_in": 3599, "token_type": "Bearer"}"#
        let bearer = try GoogleToken.read(status: 200, body: Array(good.utf8), now: now)
        #expect(bearer.expiresAt.secondsSinceEpoch == 4_599)
        #expect(String(decoding: bearer.value, as: UTF8.self) == "Bearer ya29.x")
        for (status, body, isFinal) in [
            (400, #"{"error": "invalid_grant"}"#, true), (200, #"{"id_token": "x"}"#, true), (503, "<html>", false),
            (429, "", false), (200, "[", true),
        ] {
            let refusal = #expect(throws: GoogleToken.Refusal.self) {
                try GoogleToken.read(status: status, body: Array(body.utf8), now: now)
            }
            #expect(refusal?.isFinal == isFinal)
        }
    }
}
