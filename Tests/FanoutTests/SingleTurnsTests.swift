import PushCore
import Testing

@testable import Fanout

@Suite struct SingleTurnsTests {
    private let jobs = (0..<200).map { JobID(UUIDValue(high: 7, low: UInt64($0))) }

    @Test func `after a turn that failed its jobs are taken one by one, as many as it took`() {
        var singles = SingleTurns()
        #expect(!singles.areDue)
        singles.manyFailed(turns: 3)
        for _ in 0..<3 {
            #expect(singles.areDue)
            singles.succeeded()
        }
        #expect(!singles.areDue)
        singles.succeeded()
        #expect(!singles.areDue)
    }

    @Test func `a job that fails alone three times is set aside, others in between do not matter`() {
        var singles = SingleTurns()
        singles.manyFailed(turns: 10)
        #expect(singles.failed(jobs[0], turns: 10) == false)
        #expect(singles.failed(jobs[1], turns: 10) == false)
        singles.succeeded()
        #expect(singles.failed(jobs[0], turns: 10) == false)
        #expect(singles.failed(jobs[0], turns: 10) == true)
        #expect(singles.failed(jobs[1], turns: 10) == false)
        #expect(singles.failed(jobs[1], turns: 10) == true)
    }

    @Test func `failures in a row are counted until something succeeds or nothing waits`() {
        var singles = SingleTurns()
        singles.manyFailed(turns: 10)
        _ = singles.failed(jobs[0], turns: 10)
        #expect(singles.failuresInRow == 2)
        singles.succeeded()
        #expect(singles.failuresInRow == 0)
        _ = singles.failed(jobs[0], turns: 10)
        singles.foundNothing()
        #expect(singles.failuresInRow == 0 && !singles.areDue)
        // And it is not held against a job any more.
        #expect(singles.failed(jobs[0], turns: 10) == false)
        #expect(singles.failed(jobs[0], turns: 10) == false)
    }

    @Test func `what is remembered of jobs has a bound`() {
        var singles = SingleTurns()
        #expect(singles.failed(jobs[0], turns: 10) == false)
        #expect(singles.failed(jobs[0], turns: 10) == false)
        for job in jobs.dropFirst() { #expect(singles.failed(job, turns: 10) == false) }
        #expect(singles.failed(jobs[0], turns: 10) == false)
    }
}

@Suite struct LookPlanTests {
    @Test func `the first look is at all jobs, the next after the interval`() {
        let start = ContinuousClock.now
        var plan = LookPlan(now: start)
        #expect(plan.age(at: start) == nil)
        plan.lookedAtAll(from: start, to: start + .milliseconds(1), interval: .milliseconds(125))
        #expect(plan.age(at: start + .milliseconds(125)) == .seconds(10))
        #expect(plan.age(at: start + .milliseconds(126)) == nil)
    }

    @Test func `looks at all jobs take a twentieth of the time at most`() {
        let start = ContinuousClock.now
        var plan = LookPlan(now: start)
        plan.lookedAtAll(from: start, to: start + .milliseconds(50), interval: .milliseconds(125))
        #expect(plan.age(at: start + .milliseconds(1_049)) == .seconds(10))
        #expect(plan.age(at: start + .milliseconds(1_050)) == nil)
    }
}
