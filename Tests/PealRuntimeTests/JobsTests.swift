import PealRuntime
import Postgres
import PushCore
import TestSupport
import Testing

@Suite struct JobsTests {
    private func run(_ sql: String, _ connection: PostgresConnection) async throws {
        _ = try await connection.query(SQLStatement(name: "test", text: sql))
    }

    private func makeShop(_ connection: PostgresConnection) async throws -> AppID {
        let app = try await Apps(connection).create(slug: "shop", name: nil)
        try await run(
            "SELECT peal.register_device('shop', '{\"channel\":\"ios\",\"token\":\"abcd\",\"external_id\":\"u1\"}')",
            connection
        )
        try await run(
            "SELECT peal.register_device('shop', '{\"channel\":\"android\",\"token\":\"t1\",\"external_id\":\"u1\"}')",
            connection
        )
        return app
    }

    private var requestForLater: SendRequest {
        var request = SendRequest(app: "shop", audience: #"{"all":true}"#, content: #"{"title":"Hello"}"#)
        request.sendAt = WallClock.now() + .seconds(3600)
        return request
    }

    @Test func `a send becomes a job that can be listed, paused, resumed and cancelled`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await makeShop(connection)
            let jobs = Jobs(connection)
            let job = try await jobs.send(requestForLater)
            #expect(job.state == "scheduled")
            #expect(job.lane == "campaign")
            #expect(try await jobs.page(app: "shop", state: "scheduled", limit: 10).count == 1)
            #expect(try await jobs.page(app: "shop", state: "running", limit: 10).isEmpty)
            #expect(try await jobs.page(before: job.id, limit: 10).isEmpty)
            #expect(try await jobs.steer(job.id, .pause) == "paused")
            #expect(try await jobs.status(job.id).state == "paused")
            #expect(try await jobs.steer(job.id, .resume) == "scheduled")
            #expect(try await jobs.steer(job.id, .cancel) == "cancelled")
        }
    }

    @Test func `a dry run counts by channel and reason, and leaves nothing behind`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await makeShop(connection)
            let jobs = Jobs(connection)
            let request = SendRequest(
                app: "shop",
                audience: #"{"external_ids":["u1","nobody"],"filter":{"channel":"ios"}}"#,
                content: #"{"title":"Hello"}"#
            )
            let preview = try await jobs.preview(request)
            #expect(preview.audience == 3)
            #expect(preview.parts.first { $0.channel == "ios" }?.count == 1)
            #expect(preview.parts.first { $0.channel == "android" }?.count == 1)
            #expect(preview.parts.first { $0.channel == nil }?.skippedReason == "unknown_external_id")
            #expect((preview.parts.first { $0.channel == "ios" }?.payloadBytes ?? 0) > 20)
            #expect(try await jobs.page(limit: 10).isEmpty)
        }
    }

    @Test(arguments: [
        (#"{"segment":["a"]}"#, #"{"title":"x"}"#, "audience.segment"),
        (#"{"external_ids":[]}"#, #"{"title":"x"}"#, "audience.external_ids is empty"),
        (#"{"all":true}"#, #"{"titel":"x"}"#, "content.titel"),
        (#"{"segments":["nobody"]}"#, #"{"title":"x"}"#, "no segment called"),
    ])
    func `what cannot be sent is refused with the field's name`(
        audience: String,
        content: String,
        text: String
    ) async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await makeShop(connection)
            let jobs = Jobs(connection)
            let request = SendRequest(app: "shop", audience: audience, content: content)
            for dryRun in [false, true] {
                let thrown = await #expect(throws: PostgresError.self) {
                    if dryRun { _ = try await jobs.preview(request) } else { _ = try await jobs.send(request) }
                }
                let error = thrown.map { CommandError(describing: $0) }
                #expect(error?.status == .refused)
                #expect(error?.description.contains(text) == true, "\(String(describing: error))")
            }
        }
    }

    @Test func `a second send with the same key is refused`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await makeShop(connection)
            var request = SendRequest(app: "shop", audience: #"{"all":true}"#, content: #"{"title":"Hello"}"#)
            request.idempotencyKey = "order-1"
            let job = try await Jobs(connection).send(request)
            for isPreview in [false, true] {
                let error = await #expect(throws: CommandError.self) {
                    if isPreview {
                        _ = try await Jobs(connection).preview(request)
                    } else {
                        _ = try await Jobs(connection).send(request)
                    }
                }
                #expect(error?.status == .refused)
                #expect(error?.what == "the idempotency key 'order-1' is taken, so nothing more is sent")
                #expect(error?.location == "job \(job.id) of app 'shop' has it")
            }
        }
    }

    @Test func `a send for an app that is not there names the one that was probably meant`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await makeShop(connection)
            let request = SendRequest(app: "shoop", audience: #"{"all":true}"#, content: #"{"title":"Hello"}"#)
            let error = await #expect(throws: CommandError.self) { try await Jobs(connection).send(request) }
            #expect(error?.status == .refused)
            #expect(
                error?.description == "there is no app called 'shoop'; did you mean 'shop'? "
                    + "'peal app list' shows all, 'peal app create shoop' adds it"
            )
        }
    }

    @Test func `how a job ended is said with the reasons, the most frequent first`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await makeShop(connection)
            let jobs = Jobs(connection)
            let job = try await jobs.send(
                SendRequest(app: "shop", audience: #"{"all":true}"#, content: #"{"title":"Hello"}"#)
            )
            #expect(try await jobs.status(job.id).endLines() == ["\(job.id) available"])
            // Ended before anybody was counted: that is no empty audience.
            let ends = [
                ("state = 'cancelled', cancelled_at = now(), completed_at = now()", "cancelled"),
                ("state = 'discarded', failure = 'gone', completed_at = now()", "discarded"),
                ("state = 'completed', failure = NULL, cancelled_at = NULL", "completed: an empty audience"),
            ]
            for (change, end) in ends {
                let other = try await jobs.send(
                    SendRequest(app: "shop", audience: #"{"all":true}"#, content: #"{"title":"Hello"}"#)
                )
                try await run("UPDATE peal.job SET \(change) WHERE id = '\(other.id)'", connection)
                #expect(try await jobs.status(other.id).endLines() == ["\(other.id) \(end)"])
            }
            try await run(
                """
                INSERT INTO peal.job_stat (job_id, outcome, reason, n)
                VALUES ('\(job.id)', 1, '', 5), ('\(job.id)', 2, 'Unregistered', 2),
                    ('\(job.id)', 2, 'BadDeviceToken', 1200), ('\(job.id)', 3, 'disabled', 2)
                """,
                connection
            )
            #expect(
                try await jobs.status(job.id).endLines() == [
                    "\(job.id) available: 5 accepted, 1,202 rejected, 2 skipped",
                    "reasons: 1,200 rejected BadDeviceToken, 2 rejected Unregistered, 2 skipped disabled",
                ]
            )
        }
    }

    @Test func `steering a job that has ended does nothing, and says why`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await makeShop(connection)
            let jobs = Jobs(connection)
            let job = try await jobs.send(requestForLater)
            let states = [
                (Jobs.Steering.pause, nil), (.resume, nil), (.cancel, nil), (.pause, "the job was cancelled"),
                (.resume, "the job was cancelled"),
            ]
            for (steering, reason) in states {
                let state = try await jobs.steer(job.id, steering)
                #expect(steering.idleReason(stateAfter: state) == reason)
            }
            #expect(Jobs.Steering.cancel.idleReason(stateAfter: "completed") == "the job has ended")
        }
    }

    @Test func `an unknown job is refused`() async throws {
        try await withDatabase { database in
            let jobs = Jobs(try await database.connect())
            let error = await #expect(throws: CommandError.self) { try await jobs.status(JobID(.random())) }
            #expect(error?.status == .refused)
            let steering = await #expect(throws: PostgresError.self) { try await jobs.steer(JobID(.random()), .cancel) }
            #expect(steering.map { CommandError(describing: $0) }?.status == .refused)
        }
    }

    @Test func `results are read page by page, each once, whatever the page size`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            _ = try await makeShop(connection)
            let job = try await Jobs(connection)
                .send(SendRequest(app: "shop", audience: #"{"all":true}"#, content: #"{"title":"Hello"}"#))
            // Unknown ids share device 0 and their time: only their text tells them apart. Some came hours apart.
            try await run(
                """
                INSERT INTO peal.result (job_id, device_id, route, outcome, attempt, reason, external_id, recorded_at)
                SELECT '\(job.id)', CASE WHEN n % 3 = 0 THEN 0 ELSE n END, 1, CASE WHEN n % 3 = 0 THEN 3 ELSE 1 END, 1,
                    CASE WHEN n % 3 = 0 THEN 'unknown_external_id' END, CASE WHEN n % 3 = 0 THEN 'user-' || n END,
                    now() - CASE WHEN n <= 30 THEN interval '3 hours' ELSE n / 10 * interval '1 ms' END
                FROM generate_series(1, 100) AS n
                """,
                connection
            )
            for pageSize in [1, 7, 100, 1000] {
                var seen: [[Cell]] = []
                let results = Results(connection, pageSize: pageSize)
                let count = try await results.read(job.id, outcome: nil) { seen += $0 }
                #expect(count == 100)
                #expect(Set(seen.map { "\($0[0])\($0[1])" }).count == 100)
            }
            var skipped = 0
            _ = try await Results(connection).read(job.id, outcome: "skipped") { skipped += $0.count }
            #expect(skipped == 33)
            var few = 0
            _ = try await Results(connection, pageSize: 7).read(job.id, outcome: nil, limit: 10) { few += $0.count }
            #expect(few == 10)
        }
    }
}
