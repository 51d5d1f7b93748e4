import Postgres
import PushCore
import Synchronization
import Telemetry
import TestSupport
import Testing

@testable import Fanout

@Suite struct FanoutServiceTests {
    /// Which lanes were told to have ready batches.
    private final class Published: Sendable {
        private let lanes = Mutex<[Lane: Int]>([:])
        func note(_ lane: Lane) { lanes.withLock { $0[lane, default: 0] += 1 } }
        func count(_ lane: Lane) -> Int { lanes.withLock { $0[lane] ?? 0 } }
    }

    private func makeService(
        _ fixture: SendFixture,
        _ published: Published = Published(),
        configure: (inout FanoutConfiguration) -> Void = { _ in }
    ) -> FanoutService<ContinuousClock> {
        var configuration = FanoutConfiguration()
        configuration.campaignPoll = .milliseconds(20)
        configuration.restWhenFull = .milliseconds(20)
        configure(&configuration)
        return FanoutService(
            database: fixture.database.configuration(logger: Logger(level: .error)),
            configuration: configuration,
            logger: Logger(level: .error),
            clock: ContinuousClock(),
            onPublished: { published.note($0) }
        )
    }

    /// Runs services for the time of a body, and stops them.
    private func running(_ services: FanoutService<ContinuousClock>..., body: () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for service in services { group.addTask { await service.run() } }
            defer { for service in services { service.stop() } }
            try await body()
        }
    }

    @Test func `promise 2: three processes publish campaigns and small jobs, everyone once`() async throws {
        try await withSendFixture(devices: 8_000) { fixture in
            let published = Published()
            let services = (0..<3).map { _ in
                makeService(fixture, published) { configuration in
                    configuration.devicesPerStep = 700
                    configuration.smallJobsPerStep = 7
                    configuration.jobsInHand = 2
                }
            }
            try await running(services[0], services[1], services[2]) {
                for _ in 0..<4 { _ = try await fixture.insertJob(audience: #"{"all": true}"#) }
                for user in 1...60 { _ = try await fixture.insertJob(audience: "{\"device_ids\": [\(user)]}") }
                _ = try await fixture.insertJob(audience: #"{"filter": {"tag.vip": true}}"#, lane: .transactional)
                services[0].wake(.transactional)
                try await eventually("every page of every job is published") {
                    try await fixture.expectAccounts()
                    return try await fixture.number(
                        "SELECT count(*) FROM peal.job WHERE frozen_at IS NULL OR published_pages < page_count"
                    ) == 0
                }
            }
            try await fixture.expectAccounts()
            #expect(try await fixture.number("SELECT sum(size) FROM peal.batch") == 32_000 + 60 + 80)
            let twice = try await fixture.number(
                """
                SELECT count(*) FROM (
                    SELECT b.job_id, r FROM peal.batch AS b
                    JOIN peal.audience_page AS p ON p.job_id = b.job_id AND p.page_no = b.page_no
                    CROSS JOIN unnest(p.ids[b.page_offset + 1:b.page_offset + b.size]) AS r
                    GROUP BY b.job_id, r HAVING count(*) > 1
                ) AS d
                """
            )
            #expect(twice == 0)
            #expect(published.count(.campaign) >= 4)
            #expect(published.count(.transactional) >= 2)
        }
    }

    @Test func `stopping gives up the leases, and another goes on at once`() async throws {
        try await withSendFixture(devices: 3_000) { fixture in
            let narrow: (inout FanoutConfiguration) -> Void = { configuration in
                configuration.devicesPerStep = 50
                configuration.batchesAhead = 2
            }
            let first = makeService(fixture, configure: narrow)
            try await running(first) {
                _ = try await fixture.insertJob(audience: #"{"all": true}"#)
                first.wake(.campaign)
                try await eventually("the freeze has begun") {
                    try await fixture.number("SELECT audience_count FROM peal.job") > 0
                }
            }
            let before = try await fixture.number("SELECT audience_count FROM peal.job")
            #expect(before < 3_000)
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE lease_until <= now()") == 1)
            try await fixture.expectAccounts()
            let second = makeService(fixture, configure: narrow)
            try await running(second) {
                try await eventually("the audience is frozen") {
                    try await fixture.number("SELECT count(*) FROM peal.job WHERE frozen_at IS NOT NULL") == 1
                }
            }
            #expect(try await fixture.number("SELECT audience_count FROM peal.job") == 3_000)
            try await fixture.expectAccounts()
        }
    }

    @Test func `a job whose segment is gone is discarded with the reason, the others are sent`() async throws {
        try await withSendFixture(devices: 100) { fixture in
            try await fixture.query(
                "INSERT INTO peal.segment SELECT id, 'gone', '{\"tag.vip\": true}' FROM peal.app WHERE slug = 'shop'"
            )
            let bad = try await fixture.insertJob(audience: #"{"segments": ["gone"]}"#)
            try await fixture.query("DELETE FROM peal.segment")
            let good = try await fixture.insertJob(audience: #"{"all": true}"#)
            try await running(makeService(fixture)) {
                try await eventually("both are dealt with") {
                    let state = try await fixture.state(bad)
                    let pages = try await fixture.number(
                        "SELECT published_pages FROM peal.job WHERE id = $1",
                        [.job(good)]
                    )
                    return state == "discarded" && pages > 0
                }
            }
            let failure = try await fixture.text("SELECT failure FROM peal.job_status WHERE id = $1", [.job(bad)])
            #expect(failure == #"audience.segments: the app has no segment called "gone" any more"#)
        }
    }

    @Test func `case 132: a database that was away is gone on with`() async throws {
        try await withSendFixture(devices: 2_000) { fixture in
            try await withEmptyDatabase { other in
                let admin = try await other.connect()
                let service = makeService(fixture) { $0.devicesPerStep = 50 }
                try await running(service) {
                    _ = try await fixture.insertJob(audience: #"{"all": true}"#)
                    service.wake(.campaign)
                    try await eventually("the freeze has begun") {
                        try await fixture.number("SELECT audience_count FROM peal.job") > 0
                    }
                    // Nobody may connect, and whoever is connected is thrown out.
                    let name = fixture.database.name
                    try await admin.execute("ALTER DATABASE \(name) ALLOW_CONNECTIONS false")
                    for _ in 0..<3 {
                        try await admin.execute(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(name)'"
                        )
                    }
                    await #expect(throws: PostgresError.self) { _ = try await fixture.database.connect() }
                    try await admin.execute("ALTER DATABASE \(name) ALLOW_CONNECTIONS true")
                    let looker = SendFixture(
                        database: fixture.database,
                        connection: try await fixture.database.connect()
                    )
                    try await eventually("the audience is frozen after all") {
                        try await looker.number("SELECT count(*) FROM peal.job WHERE frozen_at IS NOT NULL") == 1
                    }
                    #expect(try await looker.number("SELECT audience_count FROM peal.job") == 2_000)
                    try await looker.expectAccounts()
                }
            }
        }
    }

    @Test func `promise 10: an urgent audience is frozen beside campaigns that fill every hand`() async throws {
        try await withSendFixture(devices: 5_000) { fixture in
            let service = makeService(fixture) { configuration in
                configuration.jobsInHand = 2
                configuration.devicesPerStep = 20
            }
            try await running(service) {
                for _ in 0..<4 { _ = try await fixture.insertJob(audience: #"{"all": true}"#) }
                service.wake(.campaign)
                try await eventually("the campaigns are in hand") {
                    try await fixture.number("SELECT count(*) FROM peal.job WHERE audience_count > 0") == 2
                }
                let urgent = try await fixture.insertJob(
                    audience: #"{"filter": {"tag.vip": true}}"#,
                    lane: .transactional
                )
                service.wake(.transactional)
                try await eventually("the urgent job is published") {
                    try await fixture.number("SELECT count(*) FROM peal.batch WHERE job_id = $1", [.job(urgent)]) > 0
                }
                #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE frozen_at IS NULL") == 4)
            }
            try await fixture.expectAccounts()
        }
    }

    @Test func `missing day partitions are made by whoever meets the lack`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            try await fixture.query(
                """
                DO $$ DECLARE child text; BEGIN
                    FOR child IN
                        SELECT inhrelid::regclass::text FROM pg_inherits
                        WHERE inhparent IN ('peal.result'::regclass, 'peal.audience_page'::regclass)
                    LOOP EXECUTE 'DROP TABLE ' || child; END LOOP;
                END $$
                """
            )
            _ = try await fixture.insertJob(audience: #"{"all": true}"#)
            _ = try await fixture.insertJob(audience: #"{"device_ids": [1, 77]}"#)
            try await running(makeService(fixture)) {
                try await eventually("both jobs are published") {
                    try await fixture.number("SELECT count(DISTINCT job_id) FROM peal.batch") == 2
                }
            }
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 6: pause stops a campaign where it is, resume goes on there`() async throws {
        try await withSendFixture(devices: 4_000) { fixture in
            let service = makeService(fixture) { $0.devicesPerStep = 40 }
            try await running(service) {
                let job = try await fixture.insertJob(audience: #"{"all": true}"#)
                service.wake(.campaign)
                try await eventually("the freeze has begun") {
                    try await fixture.number("SELECT audience_count FROM peal.job") > 0
                }
                try await fixture.query("SELECT peal.pause_job($1)", [.job(job)])
                let paused = try await fixture.number("SELECT audience_count FROM peal.job")
                try await fixture.expectAccounts()
                #expect(try await fixture.number("SELECT count(*) FROM peal.batch") == 0)
                #expect(try await fixture.number("SELECT audience_count FROM peal.job") == paused)
                try await fixture.query("SELECT peal.resume_job($1)", [.job(job)])
                service.wake(.campaign)
                try await eventually("the audience is frozen") {
                    try await fixture.number("SELECT count(*) FROM peal.job WHERE frozen_at IS NOT NULL") == 1
                }
                #expect(try await fixture.number("SELECT audience_count FROM peal.job") == 4_000)
                try await fixture.expectAccounts()
            }
        }
    }

    @Test(arguments: ["57014", "40P01", "53200", "23514"])
    func `promise 9: a small job that fails again and again is set aside, the others and the other lane go on`(
        sqlState: String
    ) async throws {
        try await withSendFixture(devices: 40) { fixture in
            try await fixture.addDevices(1, app: "talk")
            try await fixture.refusePages(of: 13, sqlState)
            for user in 1...40 { _ = try await fixture.insertJob(audience: "{\"external_ids\": [\"user-\(user)\"]}") }
            _ = try await fixture.insertJob(audience: #"{"external_ids": ["user-1"]}"#, app: "talk")
            _ = try await fixture.insertJob(audience: #"{"external_ids": ["user-2"]}"#, lane: .call)
            try await running(makeService(fixture)) {
                try await eventually(within: .seconds(30), "all but one are published, and that one is set aside") {
                    try await fixture.number(
                        """
                        SELECT (SELECT count(*) FROM peal.batch)
                            + (SELECT 1000 * count(*) FROM peal.job WHERE small_size IS NULL)
                        """
                    ) == 1_041
                }
            }
            #expect(
                try await fixture.text("SELECT audience ->> 'external_ids' FROM peal.job WHERE small_size IS NULL")
                    == #"["user-13"]"#
            )
            try await fixture.expectAccounts()
        }
    }
}
