import Postgres
import PushCore
import SQLText

/// The scheduler's statements on one connection. Each is one transaction.
struct SchedulerStatements: Sendable {
    let connection: PostgresConnection
    let configuration: SchedulerConfiguration

    /// Makes due jobs available; how many there were of each lane.
    func stageJobs() async throws(PostgresError) -> [(lane: Lane, count: Int64)] {
        let rows = try await connection.query(SQLText.schedulerStageJobs, [.int32(configuration.jobsPerStep)])
        var staged: [(lane: Lane, count: Int64)] = []
        for row in rows.indices {
            staged.append((lane: try lane(try rows.text(row, 0), rows), count: try rows.int64(row, 1)))
        }
        return staged
    }

    /// Promotes due batches of a slot; how many rows were taken up, and which lanes have something ready now.
    func promoteDelayed(slot: Int16) async throws(PostgresError) -> (taken: Int32, lanes: [Lane]) {
        let rows = try await connection.query(
            SQLText.schedulerPromoteDelayed,
            [.int16(slot), .int32(configuration.delayedPerStep)]
        )
        var lanes: [Lane] = []
        for name in try rows.textArray(0, 1) { lanes.append(try lane(name, rows)) }
        return (taken: try rows.int32(0, 0), lanes: lanes)
    }

    /// Rolls counts up; how many were taken, and how many jobs ended with them.
    func rollUp() async throws(PostgresError) -> (taken: Int32, completed: Int32) {
        let rows = try await connection.query(SQLText.schedulerRollUp, [.int32(configuration.countsPerStep)])
        return (taken: try rows.int32(0, 0), completed: try rows.int32(0, 1))
    }

    /// Looks at jobs in hand after `id`; where to go on (nil: all were looked at), and how many ended.
    func completeJobs(after id: JobID) async throws(PostgresError) -> (last: JobID?, completed: Int32) {
        let rows = try await connection.query(
            SQLText.schedulerCompleteJobs,
            [.job(id), .int32(configuration.jobsPerStep)]
        )
        return (last: try rows.uuidOrNil(0, 0).map { JobID($0) }, completed: try rows.int32(0, 1))
    }

    /// Ends a part of what was not sent of ended jobs; how many recipients, 0 when nothing is left for now.
    func sweepEndedJobs() async throws(PostgresError) -> Int64 {
        let rows = try await connection.query(
            SQLText.schedulerSweepJobs,
            [.int32(configuration.jobsPerStep), .int32(configuration.recipientsPerSweep)]
        )
        return try rows.int64(0, 0)
    }

    /// Takes or renews a role; its term, or nil where another process has it.
    func holdRole(_ name: String, holder: UUIDValue) async throws(PostgresError) -> Int64? {
        let rows = try await connection.query(
            SQLText.schedulerHoldRole,
            [.text(name), .uuid(holder), .int64(configuration.roleLease.wholeMillisecondsRoundedUp)]
        )
        return rows.isEmpty ? nil : try rows.int64(0, 0)
    }

    func resignRole(_ name: String, holder: UUIDValue) async throws(PostgresError) {
        _ = try await connection.query(SQLText.schedulerResignRole, [.text(name), .uuid(holder)])
    }

    /// Makes the partitions of the coming days; how many were missing.
    func makePartitions() async throws(PostgresError) -> Int32 {
        try await connection.query(
            SQLText.schedulerMakePartitions,
            [.int32(configuration.partitionDaysAhead)]
        ).int32(0, 0)
    }

    /// Drops the oldest partition that may go; its name, or nil when none may.
    func dropOldPartition() async throws(PostgresError) -> String? {
        try await connection.query(SQLText.schedulerDropPartition, [.int32(configuration.keepDays)]).textOrNil(0, 0)
    }

    private func lane(_ name: String, _ rows: PostgresRows) throws(PostgresError) -> Lane {
        guard let lane = Lane(name: name) else {
            throw PostgresError(
                .decoding,
                activity: "read the lane of \(rows.statementName)",
                message: "\(name) is none: the schema is of another version than this binary",
                statementName: rows.statementName
            )
        }
        return lane
    }
}
