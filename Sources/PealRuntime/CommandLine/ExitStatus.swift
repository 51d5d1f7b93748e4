/// What the exit status of `peal` means. Scripts rely on the numbers, so they never change.
package enum ExitStatus: Int32, Sendable {
    /// The command did what was asked.
    case success = 0
    /// It failed for a reason that none of the others names.
    case failure = 1
    /// The command line was wrong: unknown command or option, value missing or malformed.
    case usage = 2
    /// No database: not configured, not reachable, or lost on the way.
    case databaseUnreachable = 3
    /// The input was refused, by a check of ours or by the server. An import stores the rows that were not.
    case refused = 4
    /// The provider, or the worker that a command waited for, did not do what was asked.
    case notDelivered = 5
    /// Stopped by Ctrl-C.
    case interrupted = 130
    /// Whoever read our output closed it.
    case outputClosed = 141
    /// Stopped by SIGTERM.
    case terminated = 143
}
