/// How the fan-out paces itself.
package struct FanoutConfiguration: Sendable {
    /// How many batches of a job may be ready or in hand at once, 1 to 256.
    package var batchesAhead: Int32 = 64
    /// Devices that one step of a freeze reads: about 40 ms at 50,000 (0.7 µs each, measured).
    package var devicesPerStep: Int32 = 50_000
    /// Small urgent jobs that one transaction takes: about 20 ms at 250 (0.09 ms each, measured).
    package var smallJobsPerStep: Int32 = 250
    /// Campaigns that one process freezes and publishes in turns, and as many urgent jobs beside them.
    package var jobsInHand = 16
    /// How long a claimed job stays ours without a step.
    package var lease: Duration = .seconds(60)
    /// How long a job whose window is full is left alone. A full window lasts longer than that.
    package var restWhenFull: Duration = .milliseconds(200)
    /// How long a job is left alone after a step failed for a reason that may pass.
    package var restAfterFailure: Duration = .seconds(5)
    /// How long one step of a freeze may take; the lease at most.
    package var freezeDeadline: Duration = .seconds(60)
    /// How often in a row a step of a freeze may run out of time before the job is given up.
    package var freezeTimeouts: Int32 = 5
    /// How often small urgent jobs are looked for without a wake-up.
    package var urgentPoll: Duration = .milliseconds(50)
    /// How often other jobs are looked for without a wake-up.
    package var campaignPoll: Duration = .milliseconds(250)

    package init() {}
}
