package import PushCore

/// Writes log lines: a constant message, and what there is to say about it under keys of `LogKey`.
///
/// A value with a level, a form and metadata of its own. Copying it is cheap; lines of all copies go to one output.
/// Never give it a push token, a payload or a key.
package struct Logger: Sendable {
    /// How much a line matters. Per message `trace`, per batch `debug`, per job `info`.
    package enum Level: String, Sendable, CaseIterable, Comparable {
        case trace, debug, info, warning, error

        package static func < (left: Level, right: Level) -> Bool { left.rank < right.rank }

        private var rank: Int {
            switch self {
            case .trace: 0
            case .debug: 1
            case .info: 2
            case .warning: 3
            case .error: 4
            }
        }
    }

    /// How a line looks.
    package enum Format: String, Sendable, CaseIterable {
        /// One JSON object a line.
        case json
        /// Time, level, message, then `key=value`, for people.
        case text
    }

    /// Lines below it are not written.
    package var level: Level
    package var format: Format
    /// Stands on every line of this logger.
    package var metadata: LogMetadata
    private let output: LogOutput
    private let now: @Sendable () -> WallClock.Instant

    package init(
        level: Level = .info,
        format: Format = .json,
        metadata: LogMetadata = [:],
        output: LogOutput = .standardError,
        now: @escaping @Sendable () -> WallClock.Instant = { WallClock.now() }
    ) {
        self.level = level
        self.format = format
        self.metadata = metadata
        self.output = output
        self.now = now
    }

    /// A copy whose lines carry more metadata.
    package func with(_ metadata: LogMetadata) -> Logger {
        var copy = self
        copy.metadata = self.metadata.merging(metadata)
        return copy
    }

    /// For each message.
    package func trace(_ message: StaticString, _ metadata: @autoclosure () -> LogMetadata = [:]) {
        log(.trace, message, metadata())
    }

    /// For each batch.
    package func debug(_ message: StaticString, _ metadata: @autoclosure () -> LogMetadata = [:]) {
        log(.debug, message, metadata())
    }

    /// For each job, and for what a process does once.
    package func info(_ message: StaticString, _ metadata: @autoclosure () -> LogMetadata = [:]) {
        log(.info, message, metadata())
    }

    /// For a connection or credential in trouble, once per change.
    package func warning(_ message: StaticString, _ metadata: @autoclosure () -> LogMetadata = [:]) {
        log(.warning, message, metadata())
    }

    /// For what a human must act on.
    package func error(_ message: StaticString, _ metadata: @autoclosure () -> LogMetadata = [:]) {
        log(.error, message, metadata())
    }

    /// Writes a line of the given level. Below the logger's level it costs one comparison; the metadata is not made.
    package func log(_ level: Level, _ message: StaticString, _ metadata: @autoclosure () -> LogMetadata = [:]) {
        guard level >= self.level else { return }
        let line = LogLine(
            time: now(),
            level: level,
            message: message,
            metadata: self.metadata.merging(metadata())
        )
        output.writeLine { buffer in line.append(to: &buffer, format: format) }
    }
}
