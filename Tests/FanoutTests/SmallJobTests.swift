import Postgres
import PushCore
import TestSupport
import Testing

@testable import Fanout

@Suite struct SmallJobTests {
    private func statements(_ connection: PostgresConnection) -> FanoutStatements {
        FanoutStatements(connection: connection, configuration: FanoutConfiguration())
    }

    /// Takes one turn; how many jobs it took, and how many batches they became.
    private func take(_ fixture: SendFixture, _ lane: Lane, since age: Duration?) async throws -> [Int32] {
        let turn = try await statements(fixture.connection).fanOutSmallJobs(lane, since: age)
        return [turn.jobs, turn.batches]
    }

    /// Inserts jobs for one user each.
    private func insertJobs(_ fixture: SendFixture, app: String = "shop", users: ClosedRange<Int>) async throws {
        try await fixture.query(
            """
            INSERT INTO peal.job (app, audience, content)
            SELECT $3, jsonb_build_object('external_ids', jsonb_build_array('user-' || n)), '{"title": "Hello"}'
            FROM generate_series($1, $2) AS n
            """,
            [.int64(Int64(users.lowerBound)), .int64(Int64(users.upperBound)), .text(app)]
        )
    }

    @Test func `a job for one user becomes a ready batch in one statement`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            let job = try await fixture.insertJob(audience: #"{"external_ids": ["user-5"]}"#)
            #expect(try await take(fixture, .transactional, since: .seconds(10)) == [1, 1])
            try await fixture.expectAccounts()
            let batch = try await fixture.query(
                """
                SELECT b.lane, b.route, b.size, b.attempt, b.done, p.ids
                FROM peal.batch AS b JOIN peal.audience_page AS p ON p.job_id = b.job_id AND p.page_no = b.page_no
                """
            )
            #expect(batch.count == 1)
            #expect(try batch.int16(0, 0) == 2)
            #expect(try batch.int16(0, 1) == 1)
            #expect(try batch.int32(0, 2) == 1)
            #expect(try batch.int16(0, 3) == 1)
            #expect(try batch.bytes(0, 4) == [0])
            #expect(try batch.int64Array(0, 5) == [5])
            #expect(try await fixture.state(job) == "running")
            #expect(try await take(fixture, .transactional, since: nil) == [0, 0])
        }
    }

    @Test func `several devices, channels and refusals of one user add up`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            try await fixture.query("UPDATE peal.device SET external_id = 'anna' WHERE id <= 12")
            try await fixture.query("UPDATE peal.device SET disabled_at = now() WHERE id = 3")
            let job = try await fixture.insertJob(
                audience: #"{"external_ids": ["anna", "nobody"], "device_ids": [1, 2, 77]}"#
            )
            #expect(try await take(fixture, .transactional, since: nil) == [1, 2])
            try await fixture.expectAccounts()
            let status = try await fixture.query(
                "SELECT audience, remaining, skipped_by_reason::text FROM peal.job_status WHERE id = $1",
                [.job(job)]
            )
            #expect(try status.int64(0, 0) == 14)
            #expect(try status.int64(0, 1) == 11)
            #expect(
                try status.text(0, 2) == #"{"disabled": 1, "unknown_device_id": 1, "unknown_external_id": 1}"#
            )
        }
    }

    @Test func `a job that reaches nobody completes with its reasons`() async throws {
        try await withSendFixture(devices: 1) { fixture in
            let job = try await fixture.insertJob(audience: #"{"external_ids": ["nobody"]}"#)
            #expect(try await take(fixture, .transactional, since: nil) == [1, 0])
            #expect(try await fixture.state(job) == "completed")
            #expect(try await fixture.results(job, "skipped") == 1)
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 2: four processes at once take each of a thousand jobs once`() async throws {
        try await withSendFixture(devices: 1_000) { fixture in
            try await insertJobs(fixture, users: 1...1_000)
            let total = try await withThrowingTaskGroup(of: Int32.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        let connection = try await fixture.database.connect()
                        var configuration = FanoutConfiguration()
                        configuration.smallJobsPerStep = 50
                        let statements = FanoutStatements(connection: connection, configuration: configuration)
                        var total: Int32 = 0
                        while true {
                            let taken = try await statements.fanOutSmallJobs(.transactional, since: nil)
                            guard taken.jobs > 0 else { return total }
                            total += taken.jobs
                        }
                    }
                }
                return try await group.reduce(0, +)
            }
            #expect(total == 1_000)
            #expect(try await fixture.number("SELECT count(DISTINCT job_id) FROM peal.batch") == 1_000)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch") == 1_000)
            try await fixture.expectAccounts()
        }
    }

    @Test func `a look at young jobs passes older ones by, a full look takes them`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content)
                VALUES ('shop', '{"device_ids": [1]}', '{"title": "x"}')
                """
            )
            try await fixture.query("UPDATE peal.job SET send_at = now() - interval '21 seconds'")
            #expect(try await take(fixture, .transactional, since: .seconds(10)) == [0, 0])
            #expect(try await take(fixture, .transactional, since: nil) == [1, 1])
        }
    }

    @Test(arguments: [
        #"{"all": true}"#, #"{"segments": ["vip"]}"#, #"{"filter": {"tag.vip": true}, "device_ids": [1]}"#,
        #"{"device_ids": [1], "excluded_segments": ["vip"]}"#,
    ])
    func `audiences that are a rule are left to the freeze`(audience: String) async throws {
        try await withSendFixture(devices: 10) { fixture in
            try await fixture.query(
                "INSERT INTO peal.segment SELECT id, 'vip', '{\"tag.vip\": true}' FROM peal.app WHERE slug = 'shop'"
            )
            _ = try await fixture.insertJob(audience: audience, lane: .transactional)
            #expect(try await take(fixture, .transactional, since: nil) == [0, 0])
        }
    }

    @Test func `promise 10: calls are ordered by their time, before anything else is looked at`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            for user in [3, 4] { _ = try await fixture.insertJob(audience: "{\"device_ids\": [\(user)]}", lane: .call) }
            let before = try await fixture.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
            #expect(try await take(fixture, .call, since: nil) == [2, 2])
            #expect(try await fixture.number("SELECT min(vt) FROM peal.batch_call") >= before)
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch_call") == 2)
            #expect(try await fixture.number("SELECT count(*) FROM peal.app_lane") == 0)
        }
    }

    @Test func `paused, scheduled and cancelled jobs are not taken`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            let paused = try await fixture.insertJob(audience: #"{"device_ids": [1]}"#)
            let cancelled = try await fixture.insertJob(audience: #"{"device_ids": [2]}"#)
            try await fixture.query("SELECT peal.pause_job($1), peal.cancel_job($2)", [.job(paused), .job(cancelled)])
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content, send_at)
                VALUES ('shop', '{"device_ids": [3]}', '{"title": "x"}', now() + interval '1 hour')
                """
            )
            #expect(try await take(fixture, .transactional, since: nil) == [0, 0])
            try await fixture.query("SELECT peal.resume_job($1)", [.job(paused)])
            #expect(try await take(fixture, .transactional, since: nil) == [1, 1])
        }
    }

    @Test func `a thousand jobs are four transactions, in the order of their arrival`() async throws {
        try await withSendFixture(devices: 1_000) { fixture in
            try await insertJobs(fixture, users: 1...1_000)
            let statements = statements(fixture.connection)
            var steps = 0
            while try await statements.fanOutSmallJobs(.transactional, since: .seconds(10)).jobs > 0 { steps += 1 }
            #expect(steps == 4)
            let outOfOrder = try await fixture.number(
                """
                SELECT count(*) FROM (SELECT job_id < lag(job_id) OVER (ORDER BY vt, id) AS late FROM peal.batch) AS b
                WHERE late
                """
            )
            #expect(outOfOrder == 0)
        }
    }

    @Test func `promise 9: a job that waits behind ten thousand of another app is taken in the next turn`() async throws
    {
        try await withSendFixture(devices: 1_000) { fixture in
            try await fixture.addDevices(2, app: "talk")
            for _ in 0..<10 { try await insertJobs(fixture, users: 1...1_000) }
            for age in [Duration.seconds(600), nil] {
                try await insertJobs(fixture, app: "talk", users: 1...2)
                let turn = try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: age)
                #expect(turn.jobs <= 250 && turn.hasMore)
                #expect(
                    try await fixture.number("SELECT count(*) FROM peal.job WHERE app = 'talk' AND state = 'available'")
                        == 0
                )
                #expect(try await fixture.number("SELECT count(*) FROM peal.batch AS b WHERE b.vt < 20") > 0)
            }
            // And the other's wait no longer for it.
            #expect(try await fixture.number("SELECT count(*) FROM peal.job WHERE state = 'running'") > 250)
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 9: of more apps than a turn has room for, each has its turn before any has its second`()
        async throws
    {
        try await withSendFixture { fixture in
            try await fixture.query("INSERT INTO peal.app (slug) SELECT 'app-' || n FROM generate_series(1, 40) AS n")
            try await fixture.query(
                """
                INSERT INTO peal.device (app_id, channel, token)
                SELECT a.id, 'android', 'token-' || n FROM peal.app AS a, generate_series(1, 3) AS n
                """
            )
            try await fixture.query(
                """
                INSERT INTO peal.job (app, audience, content)
                SELECT a.slug, jsonb_build_object('device_ids', jsonb_build_array(d.id)), '{"title": "x"}'
                FROM peal.app AS a JOIN peal.device AS d ON d.app_id = a.id
                """
            )
            var configuration = FanoutConfiguration()
            configuration.smallJobsPerStep = 7
            let statements = FanoutStatements(connection: fixture.connection, configuration: configuration)
            var last = AppID.none
            for _ in 0..<6 {
                let turn = try await statements.fanOutSmallJobs(.transactional, since: nil, after: last)
                #expect(turn.jobs == 7 && turn.hasMore)
                last = turn.lastApp
                try await fixture.expectAccounts()
            }
            // 42 apps in six turns of seven.
            #expect(try await fixture.number("SELECT count(DISTINCT app_id) FROM peal.batch") == 42)
            for _ in 0..<6 {
                last = try await statements.fanOutSmallJobs(.transactional, since: .seconds(600), after: last).lastApp
            }
            #expect(
                try await fixture.number(
                    "SELECT count(*) FROM (SELECT FROM peal.batch GROUP BY app_id HAVING count(*) <> 2) AS b"
                )
                    == 0
            )
        }
    }

    @Test func `a turn looks at each job once, whatever the order of ids and of due times`() async throws {
        try await withSendFixture(devices: 10) { fixture in
            // The largest ids are due first.
            try await fixture.query(
                """
                INSERT INTO peal.job (id, app, audience, content)
                SELECT (n || '0000000-0000-7000-8000-000000000000')::uuid, 'shop', '{"external_ids": ["user-1"]}',
                    '{"title": "x"}'
                FROM generate_series(1, 9) AS n
                """
            )
            try await fixture.query(
                "UPDATE peal.job SET send_at = now() - left(id::text, 1)::integer * interval '12 seconds'"
            )
            let picked = try await fixture.number(
                "SELECT cardinality(p.picked) FROM peal.pick_small_jobs('transactional', 12, now() - interval '2 minutes', 0) AS p"
            )
            let distinct = try await fixture.number(
                """
                SELECT count(DISTINCT id)
                FROM peal.pick_small_jobs('transactional', 6, now() - interval '2 minutes', 0) AS p, unnest(p.picked) AS id
                """
            )
            #expect(picked == 9 && distinct == 6)
        }
    }

    @Test func `promise 9: a turn gives the apps their shares by weight`() async throws {
        try await withSendFixture(devices: 300) { fixture in
            try await fixture.addDevices(300, app: "talk")
            try await fixture.query("UPDATE peal.app SET weight = 300 WHERE slug = 'talk'")
            try await insertJobs(fixture, users: 1...300)
            try await insertJobs(fixture, app: "talk", users: 1...300)
            #expect(try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: nil).jobs == 249)
            #expect(
                try await fixture.text(
                    "SELECT string_agg(n::text, ' ' ORDER BY n) FROM (SELECT count(*) AS n FROM peal.batch GROUP BY app_id) AS b"
                ) == "62 187"
            )
        }
    }

    @Test func `promise 9: jobs that name a thousand each do not make a turn long`() async throws {
        try await withSendFixture(devices: 1_000) { fixture in
            try await fixture.addDevices(1, app: "talk")
            let ids = (1...1_000).map { "\"user-\($0)\"" }.joined(separator: ",")
            for _ in 0..<20 { _ = try await fixture.insertJob(audience: "{\"external_ids\": [\(ids)]}") }
            try await insertJobs(fixture, app: "talk", users: 1...1)
            let turn = try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: nil)
            // The share of each is 125 jobs of twenty ids: three of a thousand.
            #expect(turn.jobs == 4 && turn.hasMore)
            #expect(try await fixture.text("SELECT state FROM peal.job WHERE app = 'talk'") == "running")
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 9: a job that cannot be taken does not hold up those beside it`() async throws {
        try await withSendFixture(devices: 20) { fixture in
            try await fixture.refusePages(of: 13, "22003")
            try await insertJobs(fixture, users: 1...20)
            #expect(try await take(fixture, .transactional, since: nil) == [20, 19])
            #expect(try await fixture.number("SELECT count(*) FROM peal.batch") == 19)
            try await fixture.expectAccounts()
            #expect(try await take(fixture, .transactional, since: nil) == [0, 0])
            // It is left to the freeze, which gives it up by name.
            let fanout = ManualFanout(fixture.connection)
            let left = try await fanout.claim()
            #expect(left.count == 1)
            let error = await #expect(throws: PostgresError.self) { try await fanout.freeze(left[0]) }
            #expect(error.map { StepFailure($0) } == .lasting)
        }
    }

    @Test func `promise 9: a user with very many devices is left to the freeze`() async throws {
        try await withSendFixture(devices: 10_001) { fixture in
            try await fixture.query("UPDATE peal.device SET external_id = 'crowd' WHERE id > 1")
            let many = try await fixture.insertJob(audience: #"{"external_ids": ["crowd", "user-1"]}"#)
            _ = try await fixture.insertJob(audience: #"{"external_ids": ["user-1"]}"#)
            #expect(try await take(fixture, .transactional, since: nil) == [2, 1])
            let fanout = ManualFanout(fixture.connection)
            #expect(try await fanout.claim() == [many])
            #expect(try await fanout.freeze(many) == .frozen)
            #expect(
                try await fixture.number("SELECT audience_count FROM peal.job WHERE id = $1", [.job(many)]) == 10_001
            )
            try await fixture.expectAccounts()
        }
    }

    /// Inserts jobs for a user of an app who has that many devices of an own.
    private func insertJobs(_ fixture: SendFixture, _ count: Int, app: String, devices: Int) async throws {
        try await fixture.query(
            """
            INSERT INTO peal.device (app_id, channel, token, external_id)
            SELECT a.id, 'android', 'crowd-' || n, 'crowd' FROM peal.app AS a, generate_series(1, $2) AS n
            WHERE a.slug = $1
            """,
            [.text(app), .int64(Int64(devices))]
        )
        for _ in 0..<count { _ = try await fixture.insertJob(audience: #"{"external_ids": ["crowd"]}"#, app: app) }
    }

    @Test func `promise 9: jobs that name one user with many devices do not make a turn long`() async throws {
        try await withSendFixture { fixture in
            try await insertJobs(fixture, 20, app: "shop", devices: 400)
            try await fixture.addDevices(1, app: "talk")
            try await insertJobs(fixture, app: "talk", users: 1...1)
            for age in [Duration.seconds(600), nil] {
                let before = try await fixture.number("SELECT coalesce(sum(size), 0) FROM peal.batch")
                let turn = try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: age)
                #expect(turn.hasMore == (age != nil))
                // The share of each is 125 jobs of twenty devices, or what the last job has above it; then shop's alone.
                let taken = try await fixture.number("SELECT sum(size) FROM peal.batch") - before
                #expect(taken == (age == nil ? 5_200 : 2_801))
                try await fixture.expectAccounts()
            }
        }
    }

    @Test func `promise 9: however many apps have long jobs, a turn is short, and the next begins where it ended`()
        async throws
    {
        try await withSendFixture { fixture in
            try await fixture.query("INSERT INTO peal.app (slug) SELECT 'app-' || n FROM generate_series(1, 8) AS n")
            for n in 1...8 { try await insertJobs(fixture, 2, app: "app-\(n)", devices: 90) }
            var configuration = FanoutConfiguration()
            configuration.smallJobsPerStep = 10
            let statements = FanoutStatements(connection: fixture.connection, configuration: configuration)
            var last = AppID.none
            var jobs: [Int32] = []
            for _ in 0..<6 {
                let turn = try await statements.fanOutSmallJobs(.transactional, since: nil, after: last)
                last = turn.lastApp
                jobs.append(turn.jobs)
                #expect(turn.hasMore == (jobs.count < 6))
                if jobs.count == 3 {
                    #expect(try await fixture.number("SELECT count(DISTINCT app_id) FROM peal.batch") == 8)
                }
                try await fixture.expectAccounts()
            }
            // Ten jobs of twenty devices are two hundred: three jobs of ninety.
            #expect(jobs == [3, 3, 3, 3, 3, 1])
        }
    }

    @Test func `a job that leads to a thousand devices is taken, one that leads to more is left to the freeze`()
        async throws
    {
        try await withSendFixture(devices: 2) { fixture in
            try await insertJobs(fixture, 1, app: "shop", devices: 999)
            let fits = try await fixture.insertJob(audience: #"{"external_ids": ["crowd"], "device_ids": [2]}"#)
            let above = try await fixture.insertJob(audience: #"{"external_ids": ["crowd", "user-1", "user-2"]}"#)
            #expect(try await take(fixture, .transactional, since: nil) == [3, 2])
            #expect(
                try await fixture.number("SELECT sum(size) FROM peal.batch WHERE job_id = $1", [.job(fits)]) == 1_000
            )
            #expect(try await ManualFanout(fixture.connection).claim() == [above])
            try await fixture.expectAccounts()
        }
    }

    @Test func `promise 9: what one app leaves of its share is filled by the others`() async throws {
        try await withSendFixture(devices: 400) { fixture in
            try await fixture.addDevices(1, app: "talk")
            try await fixture.query("UPDATE peal.app SET weight = 10000 WHERE slug = 'talk'")
            for age in [Duration.seconds(600), nil] {
                try await insertJobs(fixture, users: 1...400)
                try await insertJobs(fixture, app: "talk", users: 1...1)
                let turn = try await statements(fixture.connection).fanOutSmallJobs(.transactional, since: age)
                #expect(turn.jobs == 250 && turn.hasMore)
                #expect(
                    try await fixture.number("SELECT count(*) FROM peal.job WHERE app = 'talk' AND state = 'available'")
                        == 0
                )
            }
        }
    }

    @Test func `jobs that are taken one by one are taken in the order of their apps, wherever a turn begins`()
        async throws
    {
        try await withSendFixture(devices: 20) { fixture in
            try await fixture.addDevices(20, app: "talk")
            // Two workers whose turns begin with different apps would else wait for each other's rows of the lane.
            try await fixture.refusePages(of: 13, "22003")
            try await insertJobs(fixture, users: 12...14)
            try await insertJobs(fixture, app: "talk", users: 1...3)
            let shop = AppID(Int32(try await fixture.number("SELECT id FROM peal.app WHERE slug = 'shop'")))
            let turn = try await statements(fixture.connection)
                .fanOutSmallJobs(.transactional, since: nil, after: shop)
            #expect(turn.jobs == 6 && turn.batches == 5)
            #expect(
                try await fixture.text(
                    """
                    SELECT string_agg(a.slug, ' ' ORDER BY b.id)
                    FROM peal.batch AS b JOIN peal.app AS a ON a.id = b.app_id
                    """
                ) == "shop shop talk talk talk"
            )
        }
    }
}
