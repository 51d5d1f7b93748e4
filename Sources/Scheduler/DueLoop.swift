import Postgres
import PushCore
import Telemetry

/// Brings up what has become due: scheduled jobs, and batches that waited.
struct DueLoop {
    let configuration: SchedulerConfiguration
    let logger: Logger
    let onStaged: @Sendable (Lane) -> Void
    let onReady: @Sendable (Lane) -> Void
    var connection: KeptConnection

    /// One step of each; true if there is more that is due.
    mutating func turn() async throws(PostgresError) -> Bool {
        do throws(PostgresError) {
            let statements = SchedulerStatements(connection: try await connection.get(), configuration: configuration)
            let hasMoreJobs = try await stage(statements)
            let hasMoreBatches = try await promote(statements)
            return hasMoreJobs || hasMoreBatches
        } catch {
            await connection.note(error)
            throw error
        }
    }

    private func stage(_ statements: SchedulerStatements) async throws(PostgresError) -> Bool {
        var total: Int64 = 0
        for (lane, count) in try await statements.stageJobs() {
            total += count
            logger.info("scheduled jobs are due", [.lane: .text(lane.name), .count: .number(count)])
            onStaged(lane)
        }
        return total >= configuration.jobsPerStep
    }

    private func promote(_ statements: SchedulerStatements) async throws(PostgresError) -> Bool {
        var hasMore = false
        for slot in configuration.slots {
            let promoted = try await statements.promoteDelayed(slot: slot)
            guard promoted.taken > 0 else { continue }
            logger.debug("waiting batches were due", [.count: .number(promoted.taken)])
            for lane in promoted.lanes { onReady(lane) }
            if promoted.taken >= configuration.delayedPerStep { hasMore = true }
        }
        return hasMore
    }
}
