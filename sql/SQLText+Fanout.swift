package import PushCore

// The statements of Fanout.
extension SQLText {
    /// Takes jobs that have fan-out work.
    package static let fanoutClaimJobs = statement("fanout_claim_jobs", PackageResources.fanout_claim_jobs_sql)

    /// Gives up the lease of jobs.
    package static let fanoutReleaseJobs = statement("fanout_release_jobs", PackageResources.fanout_release_jobs_sql)

    /// Freezes the next part of an audience.
    package static let fanoutFreezeStep = statement("fanout_freeze_step", PackageResources.fanout_freeze_step_sql)

    /// Turns pages into ready batches.
    package static let fanoutPublishPages = statement("fanout_publish_pages", PackageResources.fanout_publish_pages_sql)

    /// Freezes and publishes small urgent jobs, many at once.
    package static let fanoutSmallJobs = statement("fanout_small_jobs", PackageResources.fanout_small_jobs_sql)

    /// Finds the small job that a turn of one takes.
    package static let fanoutNextSmallJob = statement(
        "fanout_next_small_job",
        PackageResources.fanout_next_small_job_sql
    )

    /// Leaves a small job to be frozen by itself.
    package static let fanoutSetJobAside = statement(
        "fanout_set_job_aside",
        PackageResources.fanout_set_job_aside_sql
    )

    /// Notes that a step of a freeze ran out of time.
    package static let fanoutNoteFreezeTimeout = statement(
        "fanout_note_freeze_timeout",
        PackageResources.fanout_note_freeze_timeout_sql
    )

    /// Gives up a job for good.
    package static let fanoutDiscardJob = statement("fanout_discard_job", PackageResources.fanout_discard_job_sql)
}
