import PushCore
import Testing

@Suite struct WakeSignalTests {
    private let clock = ContinuousClock()

    @Test func `a wake-up ends the wait that goes on`() async {
        let signal = WakeSignal()
        let wait = Task { await signal.wait(atMost: .seconds(600), clock: clock) }
        await Task.yield()
        signal.wake()
        await wait.value
    }

    @Test func `a wake-up before the wait ends it at once, and only one`() async {
        let signal = WakeSignal()
        signal.wake()
        signal.wake()
        await signal.wait(atMost: .seconds(600), clock: clock)
        let start = clock.now
        await signal.wait(atMost: .milliseconds(5), clock: clock)
        #expect(clock.now - start >= .milliseconds(5))
    }

    @Test func `the end of the time ends the wait`() async {
        let signal = WakeSignal()
        for _ in 0..<50 { await signal.wait(atMost: .microseconds(100), clock: clock) }
    }

    @Test func `cancelling the task ends the wait`() async {
        let signal = WakeSignal()
        let clock = clock
        let task = Task { await signal.wait(atMost: .seconds(600), clock: clock) }
        task.cancel()
        await task.value
    }

    @Test func `wake-ups from many threads lose no wait`() async {
        let signal = WakeSignal()
        let clock = clock
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<500 {
                        signal.wake()
                        await Task.yield()
                    }
                }
            }
            for _ in 0..<500 { await signal.wait(atMost: .microseconds(50), clock: clock) }
            await group.waitForAll()
        }
    }
}
