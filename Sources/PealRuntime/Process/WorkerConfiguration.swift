package import OpenSSL
package import Postgres
package import PushCore
package import Telemetry

/// A part of peal's work that a process can take on.
package enum WorkerRole: String, Sendable, CaseIterable {
    /// Stages due jobs, promotes retries, completes jobs, keeps partitions.
    case scheduler
    /// Freezes audiences and publishes batches.
    case fanout
    /// Sends batches and writes results.
    case delivery
}

/// What one working process does, and with what.
package struct WorkerConfiguration: Sendable {
    /// The database; may lead through PgBouncer in transaction mode.
    package var database: PostgresConfiguration
    /// A direct connection for LISTEN; the same as `database` where nothing is in between.
    package var directDatabase: PostgresConfiguration
    /// The roles of this process; by default all.
    package var roles: Set<WorkerRole> = Set(WorkerRole.allCases)
    /// The lanes that delivery serves; by default all.
    package var lanes: Set<Lane> = Set(Lane.allCases)
    /// Opens the credentials. Required where delivery is a role.
    package var masterKey: SealingKey?
    /// Whether to begin with a master key that opens no credential: for a worker without which nobody could reach the
    /// database to replace them.
    package var beginsWithForeignKey = false
    /// `PEAL_CA_FILE`: roots to trust beside the system's.
    package var caFile: String?
    /// `PEAL_RETENTION_DAYS`: how many days results are kept, 1 or more; nil: as many as the scheduler keeps by itself.
    package var retentionDays: Int32?
    /// How long a graceful stop waits for what is on the wire.
    package var drainLimit: Duration = .seconds(20)
    package var logger: Logger

    package init(database: PostgresConfiguration, directDatabase: PostgresConfiguration? = nil, logger: Logger) {
        self.database = database
        self.directDatabase = directDatabase ?? database
        self.logger = logger
    }
}
