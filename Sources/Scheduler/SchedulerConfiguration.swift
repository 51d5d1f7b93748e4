/// How often the scheduler does each of its duties, and how much at a time.
package struct SchedulerConfiguration: Sendable {
    /// How often due jobs and due retries are looked for.
    package var duePoll: Duration = .milliseconds(100)
    /// Jobs that one statement stages.
    package var jobsPerStep: Int32 = 1_000
    /// Waiting batches that one statement promotes.
    package var delayedPerStep: Int32 = 200
    /// The slots whose waiting batches are promoted here.
    package var slots: [Int16] = [0]
    /// How often ended jobs are swept: a cancel is to show within a second.
    package var sweepInterval: Duration = .milliseconds(250)
    /// Recipients that one step of a sweep ends: about a quarter of a second at 50,000.
    package var recipientsPerSweep: Int32 = 50_000
    /// How often counts are rolled up, and complete jobs ended with them.
    package var rollUpInterval: Duration = .milliseconds(500)
    /// Counts that one roll-up takes.
    package var countsPerStep: Int32 = 10_000
    /// How often all jobs in hand are looked at, in case one was complete without a roll-up.
    package var completionInterval: Duration = .seconds(10)
    /// How often partitions are made and dropped, by whoever has the role.
    package var maintenanceInterval: Duration = .seconds(600)
    /// How long the maintenance role stays with a process that renews it no more.
    package var roleLease: Duration = .seconds(15)
    /// Day partitions to have ready ahead.
    package var partitionDaysAhead: Int32 = 7
    /// Days of results to keep, 1 or more.
    package var keepDays: Int32 = 35

    package init() {}
}
