import Testing

@testable import Fanout

@Suite struct JobProgressTests {
    @Test func `publishes after each step of the freeze, and to the end after the last`() {
        var progress = JobProgress(isFrozen: false)
        #expect(progress.begin() == .freeze)
        #expect(progress.froze(.more) == .publish)
        #expect(progress.published(.waiting) == .freeze)
        #expect(progress.froze(.frozen) == .publish)
        #expect(progress.published(.published) == .publish)
        #expect(progress.published(.done) == .letGo)
    }

    @Test func `a full window does not stop the freeze`() {
        var progress = JobProgress(isFrozen: false)
        #expect(progress.froze(.more) == .publish)
        #expect(progress.published(.full) == .freeze)
        #expect(progress.froze(.frozen) == .publish)
        #expect(progress.published(.full) == .rest)
    }

    @Test func `an expired job is frozen to its end and then left to the scheduler`() {
        var progress = JobProgress(isFrozen: false)
        #expect(progress.froze(.more) == .publish)
        #expect(progress.published(.expired) == .freeze)
        #expect(progress.froze(.frozen) == .publish)
        #expect(progress.published(.expired) == .rest)
    }

    @Test func `a job that rested goes on with publishing`() {
        var progress = JobProgress(isFrozen: true)
        #expect(progress.begin() == .publish)
        #expect(progress.published(.done) == .letGo)
    }

    @Test(arguments: [false, true])
    func `a lost lease ends everything`(isFrozen: Bool) {
        var progress = JobProgress(isFrozen: isFrozen)
        #expect(progress.published(.lost) == .giveUp)
    }

    @Test func `a lease lost in the freeze ends everything`() {
        var progress = JobProgress(isFrozen: false)
        #expect(progress.froze(.lost) == .giveUp)
    }
}
