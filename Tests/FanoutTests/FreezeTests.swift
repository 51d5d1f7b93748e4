import Postgres
import PushCore
import Telemetry
import TestSupport
import Testing

@testable import Fanout

/// A fan-out driven by hand, step by step.
struct ManualFanout {
    let statements: FanoutStatements
    let token = LeaseToken(UUIDValue.random())

    init(_ connection: PostgresConnection, devicesPerStep: Int32 = 50_000, batchesAhead: Int32 = 64) {
        var configuration = FanoutConfiguration()
        configuration.devicesPerStep = devicesPerStep
        configuration.batchesAhead = batchesAhead
        statements = FanoutStatements(connection: connection, configuration: configuration)
    }

    @discardableResult
    func claim() async throws -> [JobID] {
        try await statements.claimJobs(token, urgent: JobRoom(limit: 100), campaigns: JobRoom(limit: 100), since: nil)
            .map(\.id)
    }
    func freeze(_ job: JobID) async throws -> FreezeState { try await statements.freeze(job, token).state }
    func publish(_ job: JobID) async throws -> PublishState { try await statements.publish(job, token).state }

    /// Freezes to the end; how many steps it took.
    func freezeAll(_ job: JobID, after step: () async throws -> Void = {}) async throws -> Int {
        var steps = 1
        while try await freeze(job) == .more {
            steps += 1
            try await step()
        }
        return steps
    }
}

@Suite struct FreezeTests {
    /// Every id of a job's frozen pages, and how many of them are different.
    private func frozen(_ fixture: SendFixture, _ job: JobID) async throws -> (total: Int64, different: Int64) {
        let rows = try await fixture.query(
            """
            SELECT count(*), count(DISTINCT id) FROM peal.audience_page AS p, unnest(p.ids) AS id WHERE p.job_id = $1
            """,
            [.job(job)]
        )
        return (try rows.int64(0, 0), try rows.int64(0, 1))
    }

    @Test func `an audience of all is frozen in steps into sorted pages of one route`() async throws {
        try await withSendFixture(devices: 30_000) { fixture in
            try await fixture.query("UPDATE peal.device SET disabled_at = now() WHERE id % 100 = 1")
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 10_000)
            #expect(try await fanout.claim() == [job])
            #expect(try await fanout.freezeAll(job) { try await fixture.expectAccounts() } == 3)
            try await fixture.expectAccounts()
            #expect(try await frozen(fixture, job) == (29_700, 29_700))
            let wrong = try await fixture.number(
                """
                SELECT count(*) FROM peal.audience_page AS p
                WHERE p.size NOT BETWEEN 1 AND 5000 OR p.size <> cardinality(p.ids)
                    OR p.first_id <> p.ids[1] OR p.last_id <> p.ids[p.size]
                    OR p.ids <> ARRAY(
                        SELECT d.id FROM peal.device AS d WHERE d.id = ANY (p.ids) AND d.route = p.route ORDER BY d.id
                    )
                """
            )
            #expect(wrong == 0)
            let pages = try await fixture.number("SELECT max(page_no) + 1 FROM peal.audience_page")
            #expect(try await fixture.number("SELECT page_count FROM peal.job") == pages)
        }
    }

    @Test func `promise 2: named ids become pages and results, each once`() async throws {
        try await withSendFixture(devices: 100) { fixture in
            try await fixture.query("UPDATE peal.device SET disabled_at = now() WHERE id = 10")
            try await fixture.query("UPDATE peal.device SET token = NULL, voip_token = 'ab' WHERE id = 11")
            try await fixture.query(
                "INSERT INTO peal.segment (app_id, name, filter) SELECT id, 'vip', '{\"tag.vip\": true}' FROM peal.app WHERE slug = 'shop'"
            )
            let job = try await fixture.insertJob(
                audience: """
                    {"external_ids": ["user-1", "user-1", "user-3", "user-10", "user-11", "user-100", "nobody", "nobody"],
                    "device_ids": [1, 3, 5, 999, 999], "excluded_segments": ["vip"], "channels": ["ios"]}
                    """
            )
            let fanout = ManualFanout(fixture.connection)
            try await fanout.claim()
            #expect(try await fanout.freeze(job) == .frozen)
            try await fixture.expectAccounts()
            #expect(
                try await fixture.text("SELECT string_agg(ids::text, ' ' ORDER BY page_no) FROM peal.audience_page")
                    == "{1,5}"
            )
            let reasons = try await fixture.text(
                """
                SELECT string_agg(coalesce(device_id::text, external_id) || ':' || reason, ' ' ORDER BY device_id)
                FROM (SELECT r.device_id, r.external_id, r.reason FROM peal.recipient_result AS r WHERE outcome = 'skipped') AS s
                """
            )
            #expect(
                reasons
                    == "3:not_in_channels 10:disabled 11:no_token 100:excluded 999:unknown_device_id nobody:unknown_external_id"
            )
            #expect(try await fixture.number("SELECT audience FROM peal.job_status") == 8)
            #expect(try await fixture.number("SELECT remaining FROM peal.job_status") == 2)
            #expect(
                try await fixture.number(
                    "SELECT (skipped_by_reason ->> 'unknown_external_id')::bigint FROM peal.job_status"
                )
                    == 1
            )
        }
    }

    @Test func `case 148: a token that two segments and an id lead to is met once`() async throws {
        try await withSendFixture(devices: 600) { fixture in
            try await fixture.query(
                """
                INSERT INTO peal.segment (app_id, name, filter)
                SELECT id, 's1', '{"tag.city": "izmir"}'::jsonb FROM peal.app WHERE slug = 'shop' UNION ALL
                SELECT id, 's2', '{"tag.vip": true}' FROM peal.app WHERE slug = 'shop'
                """
            )
            let job = try await fixture.insertJob(
                audience: #"{"segments": ["s1", "s2"], "external_ids": ["user-300", "user-1"], "device_ids": [300]}"#
            )
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 40)
            try await fanout.claim()
            _ = try await fanout.freezeAll(job) { try await fixture.expectAccounts() }
            // A hundred in izmir, six vip of whom two are among these, and user-1.
            #expect(try await frozen(fixture, job) == (105, 105))
            #expect(try await fixture.number("SELECT audience_count FROM peal.job") == 105)
            try await fixture.expectAccounts()
        }
    }

    @Test func `case 149: a user of two apps gets the push of the app that sends`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            try await fixture.addDevices(10, app: "talk")
            let small = try await fixture.insertJob(audience: #"{"external_ids": ["user-3"]}"#)
            let large = try await fixture.insertJob(audience: #"{"external_ids": ["user-3"]}"#, lane: .campaign)
            let fanout = ManualFanout(fixture.connection)
            _ = try await fanout.statements.fanOutSmallJobs(.transactional, since: nil)
            try await fanout.claim()
            #expect(try await fanout.freeze(large) == .frozen)
            for job in [small, large] {
                let apps = try await fixture.text(
                    """
                    SELECT string_agg((d.app_id = j.app_id)::text, ',') FROM (
                        SELECT p.job_id, unnest(p.ids) AS id FROM peal.audience_page AS p WHERE p.job_id = $1
                    ) AS r
                    JOIN peal.device AS d ON d.id = r.id
                    JOIN (SELECT id, app_id FROM peal.job) AS j ON j.id = r.job_id
                    """,
                    [.job(job)]
                )
                #expect(apps == "true")
            }
            try await fixture.expectAccounts()
        }
    }

    /// The edges of a small job, of a page and of a batch.
    @Test(arguments: [500, 501, 1_000, 1_001, 4_999, 5_000, 5_001, 10_001])
    func `case 60: an audience of any size is published whole`(count: Int) async throws {
        try await withSendFixture { fixture in
            try await fixture.query(
                """
                INSERT INTO peal.device (app_id, channel, environment, token)
                SELECT a.id, 'android', 'production', 'fcm-' || n FROM peal.app AS a, generate_series(1, $1) AS n
                WHERE a.slug = 'shop'
                """,
                [.int64(Int64(count))]
            )
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            let fanout = ManualFanout(fixture.connection)
            try await fanout.claim()
            _ = try await fanout.freezeAll(job)
            #expect(try await frozen(fixture, job) == (Int64(count), Int64(count)))
            while try await fanout.publish(job) == .published {}
            #expect(try await fixture.number("SELECT sum(size) FROM peal.batch") == Int64(count))
            #expect(try await fixture.number("SELECT audience FROM peal.job_status") == Int64(count))
            try await fixture.expectAccounts()
        }
    }

    @Test func `case 147: devices that come and go during the freeze make nobody missed or met twice`() async throws {
        try await withSendFixture(devices: 10_000) { fixture in
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 1_000)
            try await fanout.claim()
            var round: Int64 = 0
            _ = try await fanout.freezeAll(job) {
                // Early rows go, new rows come, a token changes hands, one registers anew.
                try await fixture.query(
                    "DELETE FROM peal.device WHERE id BETWEEN $1 AND $1 + 9",
                    [.int64(round * 10 + 1)]
                )
                try await fixture.query(
                    "SELECT peal.register_device('shop', jsonb_build_object('channel', 'android', 'token', 'fcm-' || $1))",
                    [.text("\(round * 10 + 3)")]
                )
                try await fixture.query(
                    "SELECT peal.register_device('shop', jsonb_build_object('channel', 'android', 'token', 'new-' || $1))",
                    [.text("\(round)")]
                )
                round += 1
                try await fixture.expectAccounts()
            }
            #expect(round > 5)
            let missed = try await fixture.number(
                """
                SELECT count(*) FROM peal.device AS d
                WHERE d.id BETWEEN 101 AND 10000 AND d.app_id = (SELECT id FROM peal.app WHERE slug = 'shop')
                    AND NOT EXISTS (SELECT FROM peal.audience_page AS p WHERE d.id = ANY (p.ids))
                """
            )
            #expect(missed == 0)
            let counts = try await frozen(fixture, job)
            #expect(counts.total == counts.different)
            let tokens = try await fixture.number(
                """
                SELECT count(*) - count(DISTINCT d.token) FROM peal.device AS d, peal.audience_page AS p
                WHERE d.id = ANY (p.ids)
                """
            )
            #expect(tokens == 0)
        }
    }

    @Test func `promise 2: devices that come, go or change between the steps of a freeze are in or out, never twice`()
        async throws
    {
        try await withSendFixture(devices: 60_000) { fixture in
            let job = try await fixture.insertJob(
                audience: #"{"filter": {"any": [{"tag.vip": true}, {"tag.vip": false}]}}"#
            )
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 10_000)
            try await fanout.claim()
            var step: Int64 = 0
            let steps = try await fanout.freezeAll(job) {
                step += 1
                // Behind and ahead of the cursor: some go, some change their channel, some lose their tag, some come.
                try await fixture.query("DELETE FROM peal.device WHERE id % 100 = $1", [.int64(step)])
                try await fixture.query(
                    "UPDATE peal.device SET disabled_at = now() WHERE id % 100 = $1 + 20",
                    [.int64(step)]
                )
                try await fixture.query("UPDATE peal.device SET tags = '{}' WHERE id % 100 = $1 + 40", [.int64(step)])
                try await fixture.query(
                    "UPDATE peal.device SET environment = 'sandbox' WHERE channel = 'ios' AND id % 100 = $1 + 60",
                    [.int64(step)]
                )
                try await fixture.query(
                    """
                    INSERT INTO peal.device (app_id, channel, token, tags)
                    SELECT a.id, 'android', 'late-' || $1 || '-' || n, '{"vip": true}'
                    FROM peal.app AS a, generate_series(1, 200) AS n WHERE a.slug = 'shop'
                    """,
                    [.int64(step)]
                )
                try await fixture.expectAccounts()
            }
            #expect(steps > 3)
            let found = try await frozen(fixture, job)
            #expect(found.total == found.different, "nobody is in twice")
            #expect(try await fixture.number("SELECT audience_count FROM peal.job") == found.total)
            let late = try await fixture.number(
                "SELECT count(*) FROM peal.audience_page AS p, unnest(p.ids) AS id WHERE id > 60000"
            )
            #expect(late == 0, "who came after the freeze began is not in")
            let missing = try await fixture.number(
                """
                SELECT count(*) FROM peal.device AS d
                WHERE d.id <= 60000 AND d.disabled_at IS NULL AND d.tags ? 'vip' AND d.environment = 'production'
                    AND NOT EXISTS (
                        SELECT FROM peal.audience_page AS p
                        WHERE d.id BETWEEN p.first_id AND p.last_id AND p.route = d.route AND d.id = ANY (p.ids)
                    )
                """
            )
            #expect(missing == 0, "who was there all the time is in")
        }
    }

    @Test func `promise 2: a fan-out that dies between steps is gone on with exactly where it stood`() async throws {
        try await withSendFixture(devices: 5_000) { fixture in
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            let dead = ManualFanout(fixture.connection, devicesPerStep: 1_000)
            try await dead.claim()
            #expect(try await dead.freeze(job) == .more)
            #expect(try await dead.publish(job) == .waiting)
            #expect(try await dead.freeze(job) == .more)
            try await fixture.expectAccounts()
            // Its lease runs out.
            try await fixture.query("UPDATE peal.job SET lease_until = now() - interval '1 second'")
            let next = ManualFanout(fixture.connection, devicesPerStep: 1_000)
            #expect(try await next.claim() == [job])
            // The dead one comes back and may change nothing.
            #expect(try await dead.freeze(job) == .lost)
            #expect(try await dead.publish(job) == .lost)
            _ = try await next.freezeAll(job) { try await fixture.expectAccounts() }
            #expect(try await next.publish(job) == .done)
            #expect(try await frozen(fixture, job) == (5_000, 5_000))
            #expect(try await fixture.number("SELECT sum(size) FROM peal.batch") == 5_000)
            try await fixture.expectAccounts()
        }
    }

    @Test func `a job cancelled during the freeze stays with what was frozen`() async throws {
        try await withSendFixture(devices: 3_000) { fixture in
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 1_000)
            try await fanout.claim()
            #expect(try await fanout.freeze(job) == .more)
            try await fixture.query("SELECT peal.cancel_job($1)", [.job(job)])
            #expect(try await fanout.freeze(job) == .lost)
            #expect(try await fixture.number("SELECT audience FROM peal.job_status") == 1_000)
            try await fixture.expectAccounts()
        }
    }

    @Test func `case 65: an audience of nobody completes at once`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            try await fixture.query(
                "INSERT INTO peal.segment SELECT id, 'empty', '{\"tag.city\": \"x\"}' FROM peal.app WHERE slug = 'shop'"
            )
            let fanout = ManualFanout(fixture.connection)
            for audience in [
                #"{"all": true}"#, #"{"external_ids": ["nobody"]}"#, #"{"filter": {"tag.city": "x"}}"#,
                #"{"segments": ["empty"]}"#,
            ] {
                let app = audience.contains("all") ? "talk" : "shop"
                let job = try await fixture.insertJob(audience: audience, app: app, lane: .campaign)
                try await fanout.claim()
                #expect(try await fanout.freeze(job) == .frozen)
                #expect(try await fixture.state(job) == "completed")
            }
            try await fixture.expectAccounts()
        }
    }

    @Test func `a narrow filter is resolved at once, a broad one along the key`() async throws {
        try await withSendFixture(devices: 20_000) { fixture in
            let fanout = ManualFanout(fixture.connection, devicesPerStep: 1_000)
            let narrow = try await fixture.insertJob(audience: #"{"filter": {"tag.city": "c7"}}"#)
            let broad = try await fixture.insertJob(audience: #"{"filter": {"tag.vip": false}}"#)
            try await fanout.claim()
            #expect(try await fanout.freezeAll(narrow) == 1)
            #expect(try await fanout.freezeAll(broad) == 20)
            #expect(try await frozen(fixture, narrow).different == 400)
            #expect(try await frozen(fixture, broad) == (19_800, 19_800))
            try await fixture.expectAccounts()
        }
    }

    @Test func `the channels and the excluded segments of a rule take away`() async throws {
        try await withSendFixture(devices: 1_000) { fixture in
            try await fixture.query(
                "INSERT INTO peal.segment SELECT id, 'izmir', '{\"tag.city\": \"izmir\"}' FROM peal.app WHERE slug = 'shop'"
            )
            let job = try await fixture.insertJob(
                audience: #"{"all": true, "channels": ["ios", "ios"], "excluded_segments": ["izmir"]}"#
            )
            let fanout = ManualFanout(fixture.connection)
            try await fanout.claim()
            #expect(try await fanout.freeze(job) == .frozen)
            let expected = try await fixture.number(
                "SELECT count(*) FROM peal.device WHERE channel = 'ios' AND tags ->> 'city' <> 'izmir'"
            )
            #expect(try await frozen(fixture, job) == (expected, expected))
        }
    }

    @Test func `a segment that is gone when the job starts is an error that lasts`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            try await fixture.query(
                "INSERT INTO peal.segment SELECT id, 'gone', '{\"tag.vip\": true}' FROM peal.app WHERE slug = 'shop'"
            )
            for audience in [#"{"segments": ["gone"]}"#, #"{"all": true, "excluded_segments": ["gone"]}"#] {
                _ = try await fixture.insertJob(audience: audience)
            }
            try await fixture.query("DELETE FROM peal.segment")
            let fanout = ManualFanout(fixture.connection)
            for job in try await fanout.claim() {
                let error = await #expect(throws: PostgresError.self) { try await fanout.freeze(job) }
                #expect(error.map { StepFailure($0) } == .lasting)
            }
        }
    }

    @Test func `a freeze that runs out of time again and again is given up with a reason, the others go on`()
        async throws
    {
        try await withSendFixture(devices: 100) { fixture in
            // The devices of this rule are not found while someone holds the table.
            let job = try await fixture.insertJob(audience: #"{"filter": {"tag.vip": true}}"#)
            let blocker = try await fixture.database.connect()
            try await blocker.execute("BEGIN; LOCK TABLE peal.device IN ACCESS EXCLUSIVE MODE")
            var configuration = FanoutConfiguration()
            configuration.freezeDeadline = .milliseconds(30)
            configuration.restAfterFailure = .zero
            configuration.campaignPoll = .milliseconds(5)
            let service = FanoutService(
                database: fixture.database.configuration(logger: Logger(level: .error)),
                configuration: configuration,
                logger: Logger(level: .error),
                clock: ContinuousClock(),
                onPublished: { _ in }
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await service.run() }
                defer { service.stop() }
                try await eventually("the job is given up") { try await fixture.state(job) == "discarded" }
            }
            try await blocker.execute("ROLLBACK")
            #expect(try await fixture.number("SELECT freeze_timeouts FROM peal.job") == 5)
            let failure = try await fixture.text("SELECT failure FROM peal.job_status WHERE id = $1", [.job(job)])
            #expect(failure?.hasPrefix("audience: its devices could not be found in time, 5 times in a row") == true)
            try await fixture.query("SELECT peal.sweep_ended_jobs(10, 1000)")
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE completed_at IS NOT NULL") == 1)
            try await fixture.expectAccounts()
        }
    }

    @Test func `a step that found the named ids in time begins the count of its time-outs anew`() async throws {
        try await withSendFixture(devices: 200) { fixture in
            let job = try await fixture.insertJob(
                audience: #"{"filter": {"tag.vip": true}, "device_ids": [1]}"#,
                lane: .transactional
            )
            let fanout = ManualFanout(fixture.connection)
            try await fanout.claim()
            let token = try await fixture.query("SELECT lease_token FROM peal.job").uuid(0, 0)
            func noteTimeout() async throws -> String? {
                try await fixture.text("SELECT peal.note_freeze_timeout($1, $2, 2)", [.job(job), .uuid(token)])
            }
            #expect(try await noteTimeout() == "false")
            #expect(try await fanout.freeze(job) == .more)
            #expect(try await noteTimeout() == "false")
            #expect(try await noteTimeout() == "true")
        }
    }

    @Test func `a rule that grew too large since its INSERT is an error that lasts`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            let values = (0..<1_000).map { "\"\(String(repeating: "x", count: 30))\($0)\"" }.joined(separator: ",")
            for name in ["a", "b"] {
                try await fixture.query(
                    "INSERT INTO peal.segment (app_id, name, filter) SELECT id, $1, '{\"tag.x\": 1}' FROM peal.app WHERE slug = 'shop'",
                    [.text(name)]
                )
            }
            let job = try await fixture.insertJob(audience: #"{"segments": ["a"], "excluded_segments": ["b"]}"#)
            try await fixture.query(
                "UPDATE peal.segment SET filter = $1::jsonb",
                [.text("{\"tag.x\": {\"in\": [\(values)]}}")]
            )
            let fanout = ManualFanout(fixture.connection)
            try await fanout.claim()
            let error = await #expect(throws: PostgresError.self) { try await fanout.freeze(job) }
            #expect(error.map { StepFailure($0) } == .lasting)
            #expect(error?.message.hasPrefix("audience: the rule of all its segments together is ") == true)
        }
    }
}
