package import PushCore

// The statements of Scheduler.
extension SQLText {
    /// Makes due jobs available.
    package static let schedulerStageJobs = statement("scheduler_stage_jobs", PackageResources.scheduler_stage_jobs_sql)

    /// Moves batches whose wait is over into the ready queue.
    package static let schedulerPromoteDelayed = statement(
        "scheduler_promote_delayed",
        PackageResources.scheduler_promote_delayed_sql
    )

    /// Adds counts into the totals of their jobs.
    package static let schedulerRollUp = statement("scheduler_roll_up", PackageResources.scheduler_roll_up_sql)

    /// Looks for jobs that are complete.
    package static let schedulerCompleteJobs = statement(
        "scheduler_complete_jobs",
        PackageResources.scheduler_complete_jobs_sql
    )

    /// Ends what was not sent of jobs that are over.
    package static let schedulerSweepJobs = statement("scheduler_sweep_jobs", PackageResources.scheduler_sweep_jobs_sql)

    /// Takes or renews a maintenance duty.
    package static let schedulerHoldRole = statement("scheduler_hold_role", PackageResources.scheduler_hold_role_sql)

    /// Gives a maintenance duty up.
    package static let schedulerResignRole = statement(
        "scheduler_resign_role",
        PackageResources.scheduler_resign_role_sql
    )

    /// Makes day partitions ahead of time. Fanout asks too, where it finds none.
    package static let schedulerMakePartitions = statement(
        "scheduler_make_partitions",
        PackageResources.scheduler_make_partitions_sql
    )

    /// Drops a day partition that is old enough.
    package static let schedulerDropPartition = statement(
        "scheduler_drop_partition",
        PackageResources.scheduler_drop_partition_sql
    )
}
