@testable import Delivery
import Testing

@Suite struct BatchLifecycleTests {
    @Test func `a batch whose recipients all have an outcome ends with the next flush`() {
        var lifecycle = BatchLifecycle()
        #expect(lifecycle.isSending)
        let early = lifecycle.nothingIsOut(remaining: 3)
        #expect(early == .none)
        let action = lifecycle.nothingIsOut(remaining: 0)
        #expect(action == .finish)
        #expect(lifecycle.isEnding)
        lifecycle.flushed()
        #expect(lifecycle.isOver)
    }

    @Test(arguments: [
        BatchLifecycle.Withdrawal.released, .delayed, .held, .failed, .cancelled,
    ])
    func `a withdrawn batch takes back what is not out, awaits the rest, and ends by its reason`(
        reason: BatchLifecycle.Withdrawal
    ) {
        var lifecycle = BatchLifecycle()
        let first = lifecycle.withdraw(reason)
        let second = lifecycle.withdraw(reason)
        #expect(first == .takeBack)
        #expect(second == .none)
        #expect(!lifecycle.isSending && !lifecycle.isEnding)
        let action = lifecycle.nothingIsOut(remaining: 2)
        #expect(action == .endRest(reason))
        let again = lifecycle.nothingIsOut(remaining: 2)
        #expect(again == .none)
        #expect(lifecycle.isEnding && lifecycle.withdrawal == reason)
    }

    @Test func `a stronger reason replaces a weaker one, never the other way round`() {
        var lifecycle = BatchLifecycle()
        _ = lifecycle.withdraw(.held)
        _ = lifecycle.withdraw(.cancelled)
        _ = lifecycle.withdraw(.released)
        let action = lifecycle.nothingIsOut(remaining: 1)
        #expect(action == .endRest(.cancelled))
    }

    @Test func `a lost lease ends everything at once, whatever the state`() {
        var sending = BatchLifecycle()
        var ending = BatchLifecycle()
        _ = ending.nothingIsOut(remaining: 0)
        let actions = [sending.withdraw(.lost), ending.withdraw(.lost)]
        #expect(actions == [.drop, .drop])
        #expect(sending.isOver && ending.isOver)
        let afterwards = sending.withdraw(.cancelled)
        #expect(afterwards == .none)
    }

    @Test func `nothing stops a batch that only waits for its last flush`() {
        var lifecycle = BatchLifecycle()
        _ = lifecycle.nothingIsOut(remaining: 0)
        let action = lifecycle.withdraw(.cancelled)
        #expect(action == .none)
        #expect(lifecycle.isEnding && lifecycle.withdrawal == nil)
    }
}
