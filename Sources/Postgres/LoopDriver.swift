import PushCore
import Synchronization
package import Telemetry

/// Runs a loop's turns until it is stopped: at once again while there is work, else after a wake-up or a poll.
///
/// An error never ends it: it waits with growing, jittered pauses and goes on.
package final class LoopDriver<LoopClock: Clock>: Sendable where LoopClock.Duration == Duration {
    package let clock: LoopClock
    private let poll: Duration
    private let logger: Logger
    private let signal = WakeSignal()
    private let stopped = Atomic(false)
    private let backoff = Backoff(first: .milliseconds(100), longest: .seconds(5))

    /// - Parameter poll: how long to wait between turns without work, give or take a fifth.
    package init(poll: Duration, clock: LoopClock, logger: Logger) {
        self.poll = poll
        self.clock = clock
        self.logger = logger
    }

    /// Whether the loop is to end: a turn of several steps looks between them.
    package var isStopped: Bool { stopped.load(ordering: .acquiring) || Task.isCancelled }

    /// Ends the wait between two turns. Callable from anywhere.
    package func wake() { signal.wake() }

    /// Ends the loop after the turn that is going on.
    package func stop() {
        stopped.store(true, ordering: .releasing)
        signal.wake()
    }

    /// Calls `turn` again and again; it says whether it should be called again at once.
    package func run(_ turn: () async throws(PostgresError) -> Bool) async {
        var failures = 0
        while !isStopped {
            do throws(PostgresError) {
                let hasMore = try await turn()
                if failures > 0 { logger.info("the database answers again", [.attempt: .number(failures)]) }
                failures = 0
                if !hasMore { await signal.wait(atMost: jittered(poll), clock: clock) }
            } catch {
                guard !isStopped else { return }
                failures += 1
                logger.warning(
                    "a database statement failed, trying again",
                    [
                        .attempt: .number(failures), .statementName: .text(error.statementName ?? "none"),
                        .errorCode: .describing(error.code), .errorMessage: .describing(error),
                    ]
                )
                await pause(backoff.delay(afterFailures: failures, atLeast: .milliseconds(20)))
            }
        }
    }

    /// Waits for the whole time, whoever calls, unless the loop is stopped.
    package func pause(_ duration: Duration) async {
        let end = clock.now.advanced(by: duration)
        while !isStopped {
            let left = clock.now.duration(to: end)
            guard left > .zero else { return }
            await signal.wait(atMost: left, clock: clock)
        }
    }

    /// Several processes that began together drift apart.
    private func jittered(_ duration: Duration) -> Duration {
        duration * Double.random(in: 0.8...1.2)
    }
}
