package import PushCore

/// Follows a job until it has ended.
package struct JobWatch: Sendable {
    private static let pollInterval: Duration = .milliseconds(300)
    /// After that long without a start, a word about the worker.
    private static let patience: Duration = .seconds(10)

    private let jobs: Jobs

    package init(_ jobs: Jobs) {
        self.jobs = jobs
    }

    /// Shows progress on standard error until the job has ended, and returns its last status.
    package func run(_ id: JobID) async throws -> JobStatus {
        Interruption.catchSignals()
        var status = try await self.status(of: id)
        var progress = ProgressLine("Sending", unit: "recipients")
        let start = ContinuousClock.now
        var hasAdvised = false
        while !status.hasEnded {
            progress.show(Self.update(status))
            if !hasAdvised, status.state == "available", ContinuousClock.now - start > Self.patience {
                progress.clear()
                StandardOutput.error("peal: no worker has begun the job yet; is 'peal worker' or 'peal up' running?")
                hasAdvised = true
            }
            try await Task.sleep(for: Self.pollInterval)
            status = try await self.status(of: id)
        }
        progress.finish(Self.update(status))
        return status
    }

    /// The status, also when the database does not answer: then until a signal.
    private func status(of id: JobID) async throws -> JobStatus {
        let jobs = jobs
        let answer: Result<JobStatus, any Error>
        do {
            answer = .success(try await Interruption.cancelling { try await jobs.status(id) })
        } catch {
            answer = .failure(error)
        }
        try Interruption.check("the job goes on; follow it with: peal job watch \(id)")
        return try answer.get()
    }

    private static func update(_ status: JobStatus) -> ProgressLine.Update {
        let isCounted = status.isFrozen || status.isCompleted
        var notes = status.summary.isEmpty ? [] : [status.summary]
        if status.state != "running" { notes.insert(status.state, at: 0) }
        return ProgressLine.Update(
            done: status.audience - status.remaining,
            total: isCounted ? status.audience : nil,
            isHeld: status.state == "paused",
            note: notes.joined(separator: ", ")
        )
    }
}
