import Dispatch
import Glibc

/// SIGTERM and SIGINT as a stream, in place of the end of the process.
///
/// The first asks for a graceful stop, the second for a stop at once; what a third means is the reader's choice. The
/// process takes the signals for itself from the moment that this is made until it ends.
package final class ShutdownSignals {
    /// The signals that arrived, in order. At most four wait to be read; more say nothing new.
    package let received: AsyncStream<ShutdownSignal>
    private let sources: [any DispatchSourceSignal]

    package init() {
        let (stream, continuation) = AsyncStream.makeStream(
            of: ShutdownSignal.self,
            bufferingPolicy: .bufferingOldest(4)
        )
        received = stream
        let queue = DispatchQueue(label: "peal.signals")
        sources = ShutdownSignal.allCases.map { signal in
            Glibc.signal(signal.rawValue, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: signal.rawValue, queue: queue)
            source.setEventHandler { continuation.yield(signal) }
            source.resume()
            return source
        }
    }

    deinit {
        for source in sources { source.cancel() }
    }
}

/// A signal that asks the process to stop.
package enum ShutdownSignal: Int32, Sendable, CaseIterable {
    /// SIGINT: Ctrl-C.
    case interrupt = 2
    /// SIGTERM: from a service manager.
    case terminate = 15
}
