extension PostgresError {
    /// Whether the same work may succeed when it is done again, on the same or on another connection.
    ///
    /// `commitUncertain` is not among them: the work must first look whether it was done.
    package var isRetryable: Bool {
        guard let state = sqlState else {
            return code == .connection || code == .deadline || code == .poolExhausted
        }
        if Self.closingStates.contains(state.text) || state.classCode == "08" { return true }
        return Self.retryableStates.contains(state.text)
    }

    /// Whether the connection that reported it must not be used again.
    ///
    /// Besides broken connections: the server is read-only (a demoted primary), is shutting down or starting, or has
    /// ended a session that kept it waiting.
    package var closesConnection: Bool {
        guard let state = sqlState else { return code == .connection || code == .commitUncertain }
        return Self.closingStates.contains(state.text) || state.classCode == "08"
    }

    /// Whether only the statement failed, or ran out of time: another one may succeed at once on the same connection.
    package var isOfStatement: Bool {
        !closesConnection && (sqlState != nil || code == .deadline)
    }

    private static let closingStates: Set<String> = ["25006", "25P03", "57P01", "57P02", "57P03", "57P05"]

    /// Serialization failure, deadlock, lock not available, statement cancelled by the server's own limits, too many
    /// connections, out of memory or disk, object in use.
    private static let retryableStates: Set<String> = [
        "40001", "40003", "40P01", "55P03", "55006", "57014", "53000", "53100", "53200", "53300",
    ]

    /// What the reader can do about it, for the kinds where that is known.
    var advice: String? {
        switch code {
        case .connection:
            "Check that the server is up and that the connection string is right"
        case .deadline:
            "Look at what the statement waits for in pg_stat_activity, or allow it more time"
        case .commitUncertain:
            "Look in the database whether the change is there before doing it again"
        case .poolExhausted:
            "Allow the pool more connections, or look for statements that hold them too long"
        default:
            switch sqlState?.text {
            case "25006"?: "The server is read-only: it will be left for the one that accepts writes"
            case "28P01"?, "28000"?: "Check the user name, the password and pg_hba.conf"
            case "3D000"?: "Create the database, or name another one"
            case "3F000"?, "42P01"?, "42703"?, "42883"?: "The schema may be older than this binary: run peal migrate"
            case "42501"?: "Grant the role the privileges that peal needs"
            case "53300"?: "Raise max_connections of the server, or make the pools smaller"
            default: hint
            }
        }
    }
}
