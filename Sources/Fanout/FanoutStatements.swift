import Postgres
import PushCore
import SQLText

/// A job that this process holds for its fan-out.
struct ClaimedJob: Sendable, Equatable {
    let id: JobID
    let appID: AppID
    let lane: Lane
    let isFrozen: Bool
}

/// How many jobs may be claimed, and of whom.
struct JobRoom: Sendable, Equatable {
    var limit: Int
    /// The claim begins with the app after this one.
    var after: AppID = .none
    /// Apps that have their share of the places already.
    var fullApps: [AppID] = []
}

/// What one turn of small jobs did.
struct SmallJobsTurn: Sendable, Equatable {
    let jobs: Int32
    let batches: Int32
    /// Whether some wait that had no room in this turn.
    let hasMore: Bool
    /// The app that the next turn is to begin after.
    let lastApp: AppID
}

extension AppID {
    /// Before every app.
    static let none = AppID(0)
}

/// The fan-out's statements on one connection. Each is one transaction.
struct FanoutStatements: Sendable {
    let connection: PostgresConnection
    let configuration: FanoutConfiguration

    /// Claims jobs of each urgent lane, and campaigns, as there is room; urgent ones come first. `since` nil looks at all.
    func claimJobs(
        _ token: LeaseToken,
        urgent: JobRoom,
        campaigns: JobRoom,
        since age: Duration?
    ) async throws(PostgresError) -> [ClaimedJob] {
        let rows = try await connection.query(
            SQLText.fanoutClaimJobs,
            [
                .lease(token), leaseMilliseconds, .int32(Int32(clamping: urgent.limit)),
                .int32(Int32(clamping: campaigns.limit)), .int32(urgent.after.value), .int32(campaigns.after.value),
                .int32s(urgent.fullApps.map(\.value)), .int32s(campaigns.fullApps.map(\.value)),
                .int64(age.map(\.wholeMillisecondsRoundedUp)),
            ]
        )
        var jobs: [ClaimedJob] = []
        for row in rows.indices {
            let job = ClaimedJob(
                id: JobID(try rows.uuid(row, 0)),
                appID: AppID(try rows.int32(row, 1)),
                lane: try lane(try rows.text(row, 2), rows),
                isFrozen: try rows.bool(row, 3)
            )
            jobs.append(job)
        }
        return jobs
    }

    func releaseJobs(_ ids: [JobID], _ token: LeaseToken, rest: Duration) async throws(PostgresError) {
        _ = try await connection.query(
            SQLText.fanoutReleaseJobs,
            [.lease(token), .uuids(ids.map(\.value)), .int64(rest.wholeMillisecondsRoundedUp)]
        )
    }

    /// Freezes a step; the state after it, and how many recipients it added.
    func freeze(_ id: JobID, _ token: LeaseToken) async throws(PostgresError) -> (state: FreezeState, added: Int64) {
        let rows = try await connection.query(
            SQLText.fanoutFreezeStep,
            [.job(id), .lease(token), leaseMilliseconds, .int32(configuration.devicesPerStep)],
            // A narrow rule is resolved in one step, whatever it takes to find its devices.
            deadline: configuration.freezeDeadline
        )
        return (state: try state(rows), added: try rows.int64(0, 1))
    }

    /// Publishes pages; the state after it, and how many batches were made.
    func publish(_ id: JobID, _ token: LeaseToken) async throws(PostgresError) -> (state: PublishState, batches: Int32)
    {
        let rows = try await connection.query(
            SQLText.fanoutPublishPages,
            [.job(id), .lease(token), leaseMilliseconds, .int32(configuration.batchesAhead)]
        )
        return (state: try state(rows), batches: try rows.int32(0, 1))
    }

    /// Takes small jobs of a lane to ready batches, of each waiting app its share; `since` nil looks at all jobs,
    /// `limit` nil takes as many as a turn may.
    func fanOutSmallJobs(
        _ lane: Lane,
        since age: Duration?,
        after app: AppID = .none,
        limit: Int32? = nil
    ) async throws(PostgresError) -> SmallJobsTurn {
        let rows = try await connection.query(
            SQLText.fanoutSmallJobs,
            [
                .text(lane.name), .int32(limit ?? configuration.smallJobsPerStep),
                .int64(age.map(\.wholeMillisecondsRoundedUp)), .int32(app.value),
            ]
        )
        return SmallJobsTurn(
            jobs: try rows.int32(0, 0),
            batches: try rows.int32(0, 1),
            hasMore: try rows.bool(0, 2),
            lastApp: AppID(try rows.int32(0, 3))
        )
    }

    /// The small job that a turn of one takes; nil where none waits.
    func nextSmallJob(_ lane: Lane, after app: AppID) async throws(PostgresError) -> (job: JobID, app: AppID)? {
        let rows = try await connection.query(SQLText.fanoutNextSmallJob, [.text(lane.name), .int32(app.value)])
        return rows.isEmpty ? nil : (job: JobID(try rows.uuid(0, 0)), app: AppID(try rows.int32(0, 1)))
    }

    /// Leaves a small job to be frozen by itself.
    func setAside(_ id: JobID) async throws(PostgresError) {
        _ = try await connection.query(SQLText.fanoutSetJobAside, [.job(id)])
    }

    /// Notes that a step of a freeze ran out of time; true where that came to pass too often and the job was given up.
    func noteFreezeTimeout(_ id: JobID, _ token: LeaseToken) async throws(PostgresError) -> Bool {
        let rows = try await connection.query(
            SQLText.fanoutNoteFreezeTimeout,
            [.job(id), .lease(token), .int32(configuration.freezeTimeouts)]
        )
        return try rows.bool(0, 0)
    }

    /// Gives up a job for good; false where it was no longer ours.
    func discard(_ id: JobID, _ token: LeaseToken, reason: String) async throws(PostgresError) -> Bool {
        let rows = try await connection.query(
            SQLText.fanoutDiscardJob,
            [.job(id), .lease(token), .text(reason)]
        )
        return try rows.bool(0, 0)
    }

    /// Makes the partitions of the coming days; how many were missing.
    func makePartitions(daysAhead: Int32) async throws(PostgresError) -> Int32 {
        try await connection.query(SQLText.schedulerMakePartitions, [.int32(daysAhead)]).int32(0, 0)
    }

    private var leaseMilliseconds: PostgresParameter {
        .int64(configuration.lease.wholeMillisecondsRoundedUp)
    }

    private func lane(_ name: String, _ rows: PostgresRows) throws(PostgresError) -> Lane {
        guard let lane = Lane(name: name) else { throw Self.unknown("lane", name, rows) }
        return lane
    }

    private func state<State: RawRepresentable>(
        _ rows: PostgresRows
    ) throws(PostgresError) -> State where State.RawValue == String {
        let text = try rows.text(0, 0)
        guard let state = State(rawValue: text) else { throw Self.unknown("state", text, rows) }
        return state
    }

    private static func unknown(_ what: String, _ text: String, _ rows: PostgresRows) -> PostgresError {
        PostgresError(
            .decoding,
            activity: "read the \(what) of \(rows.statementName)",
            message: "\(text) is none: the schema is of another version than this binary",
            statementName: rows.statementName
        )
    }
}
