package import Telemetry

/// A worker under the signals of its process: what `peal worker` and `peal up` do once they know with what.
package enum WorkerProcess {
    /// Runs the worker. The first SIGTERM or SIGINT stops it gracefully, the second at once. Returns when it has
    /// stopped, with the signal that asked for it.
    @concurrent
    package static func run(_ worker: Worker, signals: ShutdownSignals, logger: Logger) async throws -> ShutdownSignal?
    {
        let received = signals.received
        let watch = Task { () -> ShutdownSignal? in
            var first: ShutdownSignal?
            for await signal in received {
                if first == nil {
                    first = signal
                    logger.info("stopping: claiming nothing more", [.signal: .number(signal.rawValue)])
                    await worker.stop()
                } else {
                    logger.info("stopping at once", [.signal: .number(signal.rawValue)])
                    await worker.stopNow()
                }
            }
            return first
        }
        do {
            try await worker.run()
        } catch {
            watch.cancel()
            throw error
        }
        watch.cancel()
        return await watch.value
    }
}
