import Postgres
import PushCore
import TestSupport
import Testing

@testable import Scheduler

@Suite struct MaintenanceTests {
    @Test func `one holds a role, the next has it when it is resigned or runs out`() async throws {
        try await withSendFixture { fixture in
            let statements = ManualScheduler(fixture).statements
            let (first, second) = (UUIDValue.random(), UUIDValue.random())
            #expect(try await statements.holdRole("maintenance", holder: first) == 1)
            #expect(try await statements.holdRole("maintenance", holder: second) == nil)
            #expect(try await statements.holdRole("maintenance", holder: first) == 1)
            // Nobody can resign what is not theirs.
            try await statements.resignRole("maintenance", holder: second)
            #expect(try await statements.holdRole("maintenance", holder: second) == nil)
            try await statements.resignRole("maintenance", holder: first)
            #expect(try await statements.holdRole("maintenance", holder: second) == 2)
            try await fixture.query("UPDATE peal.role_lease SET lease_until = now() - interval '1 second'")
            #expect(try await statements.holdRole("maintenance", holder: first) == 3)
        }
    }

    @Test func `partitions are made ahead, and only those that are missing`() async throws {
        try await withSendFixture { fixture in
            let statements = ManualScheduler(fixture).statements
            #expect(try await statements.makePartitions() == 0)
            try await fixture.query(
                "DO $$ BEGIN EXECUTE format('DROP TABLE peal.%I', 'result_' || to_char(now() AT TIME ZONE 'UTC' + interval '6 days', 'YYYYMMDD')); END $$"
            )
            #expect(try await statements.makePartitions() == 1)
        }
    }

    /// Adds the day partitions of some days ago.
    private func addPartitions(_ fixture: SendFixture, daysAgo: ClosedRange<Int>) async throws {
        for day in daysAgo {
            for parent in ["result", "audience_page"] {
                try await fixture.query(
                    """
                    DO $$ DECLARE day date := (now() AT TIME ZONE 'UTC')::date - \(day); BEGIN EXECUTE format(
                        'CREATE TABLE peal.%I PARTITION OF peal.\(parent) FOR VALUES FROM (%L) TO (%L)',
                        '\(parent)_' || to_char(day, 'YYYYMMDD'), day || ' 00:00+00', day + 1 || ' 00:00+00'
                    ); END $$
                    """
                )
            }
        }
    }

    @Test func `days that are old enough are dropped one by one, oldest first`() async throws {
        try await withSendFixture { fixture in
            try await addPartitions(fixture, daysAgo: 35...38)
            let statements = ManualScheduler(fixture).statements
            var dropped: [String] = []
            while let name = try await statements.dropOldPartition() { dropped.append(name) }
            // The 36th day ago ended 35 days ago at midnight, so the 35th is kept.
            #expect(dropped.count == 6)
            #expect(dropped == dropped.sorted { $0.suffix(8) == $1.suffix(8) ? $0 < $1 : $0.suffix(8) < $1.suffix(8) })
            #expect(try await statements.makePartitions() == 0)
        }
    }

    @Test func `a day that an unfinished job needs is kept`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            try await addPartitions(fixture, daysAgo: 37...39)
            let scheduler = ManualScheduler(fixture)
            let job = try await scheduler.publishedJob(devices: 1...20)
            try await fixture.query("UPDATE peal.job SET audience_at = date_trunc('day', now()) - interval '38 days'")
            try await fixture.query(
                "UPDATE peal.audience_page SET audience_at = date_trunc('day', now()) - interval '38 days'"
            )
            var dropped = 0
            while try await scheduler.statements.dropOldPartition() != nil { dropped += 1 }
            #expect(dropped == 2)
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)])
            #expect(try await scheduler.sweepAll() == 20)
            // It is kept as long as any job that ended now, and its day with it.
            #expect(try await scheduler.statements.dropOldPartition() == nil)
            try await fixture.query("UPDATE peal.job SET completed_at = now() - interval '36 days'")
            // First the job, whose results go with the day, then the four partitions.
            dropped = 0
            while try await scheduler.statements.dropOldPartition() != nil { dropped += 1 }
            #expect(dropped == 5)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 0)
        }
    }

    /// There is a day of 40 days ago, and a job that was published, cancelled and settled.
    private func schedulerOfEndedJob(_ fixture: SendFixture) async throws -> ManualScheduler {
        let scheduler = ManualScheduler(fixture)
        try await addPartitions(fixture, daysAgo: 40...40)
        let job = try await scheduler.publishedJob(devices: 1...20)
        try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)])
        _ = try await scheduler.sweepAll()
        return scheduler
    }

    @Test func `promise 1: a job goes with its results, so no count is left that cannot be checked`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            let scheduler = try await schedulerOfEndedJob(fixture)
            try await fixture.query(
                """
                UPDATE peal.job SET audience_at = now() - interval '40 days', completed_at = now() - interval '40 days'
                """
            )
            try await fixture.query("UPDATE peal.result SET recorded_at = now() - interval '40 days'")
            while try await scheduler.statements.dropOldPartition() != nil {}
            #expect(try await fixture.number("SELECT count(*) FROM peal.result") == 0)
            try await fixture.expectAccounts()
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 0)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job_stat") == 0)
        }
    }

    @Test func `a job that ended long after it began is kept as long as any other, with its pages`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            let scheduler = try await schedulerOfEndedJob(fixture)
            try await fixture.query(
                "UPDATE peal.job SET audience_at = now() - interval '41 days', completed_at = now()"
            )
            while try await scheduler.statements.dropOldPartition() != nil {}
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 1)
            try await fixture.query("UPDATE peal.job SET completed_at = now() - interval '36 days'")
            while try await scheduler.statements.dropOldPartition() != nil {}
            #expect(try await fixture.number("SELECT count(*) FROM peal.job") == 0)
        }
    }

    @Test func `a partition that somebody reads is left for the next time`() async throws {
        try await withSendFixture { fixture in
            try await addPartitions(fixture, daysAgo: 40...40)
            let reader = try await fixture.database.connect()
            try await reader.execute("BEGIN; SELECT count(*) FROM peal.result")
            let error = await #expect(throws: PostgresError.self) {
                while try await ManualScheduler(fixture).statements.dropOldPartition() != nil {}
            }
            #expect(error?.sqlState == "55P03")
            try await reader.execute("COMMIT")
            var dropped = 0
            while try await ManualScheduler(fixture).statements.dropOldPartition() != nil { dropped += 1 }
            #expect(dropped >= 1)
            await reader.close()
        }
    }

    @Test(arguments: [0, -1, nil] as [Int32?])
    func `less than a day is never kept`(days: Int32?) async throws {
        try await withSendFixture { fixture in
            try await addPartitions(fixture, daysAgo: 2...3)
            let error = await #expect(throws: PostgresError.self) {
                try await fixture.query("SELECT peal.drop_old_partition($1)", [.int32(days)])
            }
            #expect(error?.sqlState == "22023")
            #expect(error?.message == "days to keep must be 1 or more, found \(days.map(String.init) ?? "nothing")")
            #expect(try await fixture.text("SELECT peal.drop_old_partition(1)") != nil)
        }
    }

    @Test func `a duty that fails rests longer each time, and is as before once it succeeds`() {
        let start = ContinuousClock.now
        var timetable = Timetable<UpkeepLoop<ContinuousClock>.Duty, ContinuousClock.Instant>()
        #expect(timetable.rest(.sweep, from: start) == 1)
        #expect(!timetable.isDue(.sweep, at: start))
        #expect(timetable.isDue(.rollUp, at: start))
        for count in 2...20 { #expect(timetable.rest(.sweep, from: start) == count) }
        #expect(!timetable.isDue(.sweep, at: start))
        #expect(timetable.isDue(.sweep, at: start + .seconds(5)))
        timetable.put(.sweep, off: .zero, from: start)
        #expect(timetable.isDue(.sweep, at: start))
        #expect(timetable.rest(.sweep, from: start) == 1)
    }

    @Test func `duties are due when their interval is over`() {
        let start = ContinuousClock.now
        var timetable = Timetable<UpkeepLoop<ContinuousClock>.Duty, ContinuousClock.Instant>()
        #expect(timetable.isDue(.sweep, at: start))
        timetable.put(.sweep, off: .seconds(1), from: start)
        #expect(!timetable.isDue(.sweep, at: start + .milliseconds(999)))
        #expect(timetable.isDue(.sweep, at: start + .seconds(1)))
        #expect(timetable.isDue(.rollUp, at: start))
    }
}
