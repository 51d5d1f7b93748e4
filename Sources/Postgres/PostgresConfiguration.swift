package import Telemetry

/// How to reach a server, and how long to wait for it.
package struct PostgresConfiguration: Sendable {
    /// A libpq connection string or URI. Several hosts are tried in order. What it sets wins over the defaults here.
    package var connectionString: String
    /// Shown in `pg_stat_activity`.
    package var applicationName: String
    /// The time for each host to answer and accept the connection.
    package var connectTimeout: Duration = .seconds(5)
    /// The time for each call that names none of its own.
    package var statementDeadline: Duration = .seconds(30)
    /// How long a server may take to cancel a statement before the connection is cut off.
    package var cancelGrace: Duration = .seconds(2)
    /// Whether only a server that accepts writes will do.
    package var requiresWritableServer = true
    package var logger: Logger

    package init(
        _ connectionString: String,
        applicationName: String = "peal",
        logger: Logger = Logger(level: .warning)
    ) {
        self.connectionString = connectionString
        self.applicationName = applicationName
        self.logger = logger
    }
}
