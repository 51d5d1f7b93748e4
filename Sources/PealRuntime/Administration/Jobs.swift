package import Postgres
package import PushCore
import SQLText

/// A send to ask for.
package struct SendRequest: Sendable {
    package var app: String
    /// JSON text.
    package var audience: String
    /// JSON text.
    package var content: String
    package var sendAt: WallClock.Instant?
    package var ttlSeconds: Int32?
    package var collapseID: String?
    package var idempotencyKey: String?
    package var lane: String?
    package var onDoubt: String?

    package init(app: String, audience: String, content: String) {
        self.app = app
        self.audience = audience
        self.content = content
    }
}

/// A job that was accepted.
package struct AcceptedJob: Sendable {
    package let id: JobID
    package let lane: String
    package let state: String
    package let sendAt: WallClock.Instant
    package let expiresAt: WallClock.Instant
}

/// Asks for sends, and follows and steers jobs.
package struct Jobs: Sendable {
    /// What can be done to a job.
    package enum Steering: String, Sendable {
        case cancel, pause, resume

        /// Why it did nothing to a job whose state is this after it; nil where it did something, or may have.
        package func idleReason(stateAfter state: String) -> String? {
            switch state {
            case "completed": "the job has ended"
            case "discarded": "the job was discarded"
            case "cancelled" where self != .cancel: "the job was cancelled"
            default: nil
            }
        }
    }

    /// What `page` returns, by column.
    package static let columns = columnKinds.map(\.0)
    private static let columnKinds: [(String, CellKind)] = [
        ("id", .uuid), ("app", .text), ("lane", .text), ("state", .text), ("audience", .number), ("accepted", .number),
        ("rejected", .number), ("skipped", .number), ("expired", .number), ("superseded", .number),
        ("cancelled", .number), ("unknown", .number), ("remaining", .number), ("queued_at", .time), ("send_at", .time),
        ("completed_at", .time),
    ]

    private let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Inserts the job. What cannot be sent is refused by the database, with the field's name; an app that is not there
    /// and an idempotency key that is taken are status 4 in words of our own.
    package func send(_ request: SendRequest) async throws -> AcceptedJob {
        do {
            return try Self.accepted(try await connection.query(SQLText.adminInsertJob, Self.parameters(request)))
        } catch {
            throw try await explained(error, of: request)
        }
    }

    /// Checks the request as `send` does, counts its audience, and takes everything back.
    package func preview(_ request: SendRequest) async throws -> AudiencePreview {
        do {
            try await connection.transaction { connection in
                let rows = try await connection.query(SQLText.adminInsertJob, Self.parameters(request))
                let job = try Self.accepted(rows)
                let counts = try await connection.query(
                    SQLText.adminPreviewAudience,
                    [.text(request.app), .jsonb(request.audience), .jsonb(request.content), .text(request.collapseID)]
                )
                throw TakenBack(preview: try AudiencePreview(job: job, counts))
            }
        } catch let result as TakenBack {
            return result.preview
        } catch let refusal as PostgresError {
            throw try await explained(refusal, of: request)
        }
        preconditionFailure("a preview always takes its transaction back")
    }

    /// Jobs, the newest first, with ids below `before`, at most `limit`.
    package func page(
        app: String? = nil,
        state: String? = nil,
        before: JobID? = nil,
        limit: Int
    ) async throws -> [[Cell]] {
        let rows = try await connection.query(
            SQLText.adminListJobs,
            [.text(app), .text(state), .job(before), .int32(Int32(clamping: limit))]
        )
        return try rows.cells(Self.columnKinds)
    }

    /// The status of a job. Throws status 4 when there is no such job.
    package func status(_ id: JobID) async throws -> JobStatus {
        let rows = try await connection.query(SQLText.adminReadJob, [.job(id)])
        guard !rows.isEmpty else {
            throw CommandError(.refused, "no job has the id \(id)", advice: "'peal job list' shows the newest")
        }
        return try JobStatus(rows, 0)
    }

    /// Cancels, pauses or resumes a job, and returns its state after it.
    package func steer(_ id: JobID, _ steering: Steering) async throws -> String {
        let statement =
            switch steering {
            case .cancel: SQLText.adminCancelJob
            case .pause: SQLText.adminPauseJob
            case .resume: SQLText.adminResumeJob
            }
        return try await connection.query(statement, [.job(id)]).text(0, 0)
    }

    /// The refusal of a send, in better words where the server's own say too little.
    private func explained(_ refusal: PostgresError, of request: SendRequest) async throws -> any Error {
        if refusal.constraint == "job_idempotency", let key = request.idempotencyKey {
            let rows = try await connection.query(SQLText.adminFindKeyedJob, [.text(request.app), .text(key)])
            let job = rows.isEmpty ? nil : JobID(try rows.uuid(0, 0))
            let advice = job.map { "'peal job status \($0)' shows it; another send needs another key" }
            return CommandError(
                .refused,
                "the idempotency key '\(key)' is taken, so nothing more is sent",
                at: job.map { "job \($0) of app '\(request.app)' has it" } ?? "app '\(request.app)'",
                advice: advice ?? "another send needs another key"
            )
        }
        // Throws with the nearest slug where the app is what is wrong.
        if refusal.sqlState?.classCode == "22" { _ = try await Apps(connection).find(request.app) }
        return refusal
    }

    private static func parameters(_ request: SendRequest) -> PostgresParameters {
        [
            .text(request.app), .jsonb(request.audience), .jsonb(request.content), .timestamp(request.sendAt),
            .int32(request.ttlSeconds), .text(request.collapseID), .text(request.idempotencyKey), .text(request.lane),
            .text(request.onDoubt),
        ]
    }

    private static func accepted(_ rows: PostgresRows) throws(PostgresError) -> AcceptedJob {
        AcceptedJob(
            id: JobID(try rows.uuid(0, 0)),
            lane: try rows.text(0, 1),
            state: try rows.text(0, 2),
            sendAt: try rows.timestamp(0, 3),
            expiresAt: try rows.timestamp(0, 4)
        )
    }
}

/// Carries the preview out of the transaction that it must not leave behind.
private struct TakenBack: Error {
    let preview: AudiencePreview
}
