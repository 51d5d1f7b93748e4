import Glibc
import Synchronization
import Threads

/// Runs the jobs of one actor on a thread of its own, so that blocking calls never sit on the cooperative pool.
///
/// The thread holds the executor alive until `stop`, which the actor calls when it goes: then no job can follow.
package final class DedicatedThreadExecutor: SerialExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        var isStopped = false
    }

    private let state = Mutex(State())
    private let wakeUp: CountingSemaphore

    /// Starts the thread; ends the process when it has no room for another. The name, cut to 15 bytes, shows in `top -H`.
    package init(name: String) {
        guard let wakeUp = CountingSemaphore() else {
            preconditionFailure("no eventfd could be made (error \(errno)): raise the limit of open files")
        }
        self.wakeUp = wakeUp
        let code = Thread.start(name: name) { self.run() }
        precondition(code == 0, "no thread could be started (error \(code)): raise the limit of threads")
    }

    /// Ends the thread once the jobs it has are done.
    package func stop() {
        state.withLock { $0.isStopped = true }
        wakeUp.signal()
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let unowned = UnownedJob(job)
        state.withLock { $0.jobs.append(unowned) }
        wakeUp.signal()
    }

    private func run() {
        var jobs: [UnownedJob] = []
        while true {
            let isStopped = state.withLock { state in
                swap(&jobs, &state.jobs)
                return state.isStopped
            }
            for job in jobs { unsafe job.runSynchronously(on: asUnownedSerialExecutor()) }
            if jobs.isEmpty {
                if isStopped { return }
                wakeUp.wait()
            }
            jobs.removeAll(keepingCapacity: true)
        }
    }
}
