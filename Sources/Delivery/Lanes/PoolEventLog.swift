import HTTP2
import PushCore
import Synchronization
import Telemetry

/// Logs what happens to connections: trouble once when it begins, and once when it is over.
final class PoolEventLog: Sendable {
    private let failing = Mutex<Set<PoolID>>([])
    /// When it was warned of a request that was given up, for as long as that stands for others.
    private let givenUpAt = Mutex<[PoolID: ContinuousClock.Instant]>([:])
    /// A peer that ends all connections has one request given up after the other.
    private static let givenUpInterval: Duration = .seconds(600)
    private let logger: Logger

    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Called on the client's thread.
    func note(_ event: PoolEvent) {
        switch event.kind {
        case .connected:
            let wasFailing = failing.withLock { $0.remove(event.pool) != nil }
            if wasFailing {
                logger.info("The provider can be reached again", [.errorMessage: .text(event.message)])
            } else {
                logger.debug("Connected to the provider", [.errorMessage: .text(event.message)])
            }
        case .connectFailed:
            let isNew = failing.withLock { $0.insert(event.pool).inserted }
            logger.log(
                isNew ? .warning : .debug,
                "The provider cannot be reached",
                [.errorMessage: .text(event.message)]
            )
        case .goAway:
            logger.debug("The provider asks to leave a connection", [.errorMessage: .text(event.message)])
        case .requestGivenUp:
            let isNew = givenUpAt.withLock { times in
                let now = ContinuousClock.now
                times = times.filter { now - $0.value < Self.givenUpInterval }
                if times[event.pool] != nil { return false }
                times[event.pool] = now
                return true
            }
            logger.log(
                isNew ? .warning : .debug,
                "A message ends every connection that it goes over; it is tried again later, apart from the others",
                [.errorMessage: .text(event.message)]
            )
        case .lost, .retired:
            logger.debug("A connection to the provider ends", [.errorMessage: .text(event.message)])
        }
    }
}
