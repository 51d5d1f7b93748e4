import Glibc
import Synchronization

/// Starts the loop on a thread of its own and waits until it is ready.
enum SimulatorThread {
    private final class Start: Sendable {
        let seed: ServerLoop.Seed
        let result = Mutex<Result<Void, SimulatorError>?>(nil)
        let ready: Wakeup

        init(seed: ServerLoop.Seed) throws(SimulatorError) {
            self.seed = seed
            ready = try Wakeup()
        }

        func run() {
            do {
                let loop = try ServerLoop(seed: seed)
                report(.success(()))
                loop.run()
            } catch {
                report(.failure(error))
            }
        }

        private func report(_ outcome: Result<Void, SimulatorError>) {
            result.withLock { $0 = outcome }
            ready.wake()
        }
    }

    static func start(_ seed: ServerLoop.Seed) throws(SimulatorError) -> pthread_t {
        let start = try Start(seed: seed)
        var thread = pthread_t()
        let context = unsafe Unmanaged.passRetained(start).toOpaque()
        // Released by the thread, or here when there is none.
        let code = unsafe pthread_create(&thread, nil, runSimulatorThread, context)
        guard code == 0 else {
            unsafe Unmanaged<Start>.fromOpaque(context).release()
            throw .system(.thread, "starting the simulator's thread", errno: code)
        }
        start.ready.waitForWake()
        let outcome = start.result.withLock { $0 }
        if case .failure(let error)? = outcome {
            pthread_join(thread, nil)
            throw error
        }
        return thread
    }

    fileprivate static func run(_ context: UnsafeMutableRawPointer?) {
        guard let context = unsafe context else { return }
        let start = unsafe Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
        // A peer that is gone must give EPIPE, not end the process; this thread only.
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
        start.run()
    }
}

/// Body of the simulator's thread.
private func runSimulatorThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    unsafe SimulatorThread.run(context)
    return nil
}
