package import OpenSSL
package import PealRuntime
package import Postgres
package import ProviderSimulator
package import PushCore
package import Telemetry
package import Testing

/// A database, a simulated provider, and the app `shop` with credentials for it: all that a send needs from end to end.
package struct Pipeline: Sendable {
    package let fixture: SendFixture
    package let simulator: ProviderSimulator
    package let masterKey: SealingKey
    /// The master key as `PEAL_MASTER_KEY` wants it.
    package static let masterKeyText = String(repeating: "5a", count: 32)

    package var database: TestDatabase { fixture.database }
    /// The test's own connection.
    package var connection: PostgresConnection { fixture.connection }

    // MARK: What to send with

    /// Adds credentials of an app for both APNs hosts and FCM, as `peal credential add` does; by default they lead to
    /// this pipeline's simulator.
    package func addCredentials(to slug: String, of other: ProviderSimulator? = nil) async throws {
        let simulator = other ?? simulator
        try await addAPNs(to: slug, "production", simulator.endpoint(.apnsProduction).url, of: simulator)
        try await addAPNs(to: slug, "sandbox", simulator.endpoint(.apnsSandbox).url, of: simulator)
        let account = try FCMCredential(json: Array(simulator.serviceAccountJSON.utf8), source: "the simulator")
        try await Credentials(connection).add(
            account,
            endpoint: simulator.endpoint(.fcm).url,
            to: try await Apps(connection).find(slug),
            sealingKey: masterKey
        )
    }

    private func addAPNs(
        to slug: String,
        _ environment: String,
        _ endpoint: String,
        of simulator: ProviderSimulator
    ) async throws {
        let credential = try APNsCredential(
            key: Array(simulator.apnsKeyPEM.utf8),
            source: "the simulator",
            keyID: simulator.keyID,
            teamID: simulator.teamID,
            topic: "com.example.\(slug)",
            environment: environment
        )
        try await Credentials(connection).add(
            credential,
            endpoint: endpoint,
            to: try await Apps(connection).find(slug),
            sealingKey: masterKey
        )
    }

    /// Adds devices that were registered a day ago, as `user-N` with N counted from 1 within the app.
    ///
    /// Their tokens begin with the words in turn. A word of hexadecimal digits makes an iOS device, one that ends with a
    /// colon an Android device; `ab` and `ok:` are accepted. Each device has the tag `n`, its number.
    package func addDevices(
        _ count: Int,
        _ words: [String] = ["ab", "ok:"],
        environment: String = "production",
        to slug: String = "shop"
    ) async throws {
        try await fixture.query(
            """
            INSERT INTO peal.device (app_id, channel, environment, token, external_id, tags, registered_at)
            SELECT
                a.id, CASE WHEN w.word LIKE '%:' THEN 'android' ELSE 'ios' END, $3,
                CASE
                    WHEN w.word LIKE '%:' THEN w.word || a.id || '-' || i.n
                    ELSE rpad(w.word, 48, 'a') || lpad(to_hex(a.id), 4, '0') || lpad(to_hex(i.n), 12, '0')
                END,
                'user-' || i.n, jsonb_build_object('n', i.n), now() - interval '1 day'
            FROM peal.app AS a
            CROSS JOIN LATERAL (SELECT count(*) FROM peal.device AS d WHERE d.app_id = a.id) AS before (n)
            CROSS JOIN LATERAL generate_series(before.n + 1, before.n + $4) AS i (n)
            CROSS JOIN LATERAL (SELECT ($2::text[])[i.n % cardinality($2::text[]) + 1] AS word) AS w
            WHERE a.slug = $1
            ORDER BY i.n
            """,
            [.text(slug), .texts(words), .text(environment), .int64(Int64(count))]
        )
        try await fixture.query("ANALYZE peal.device")
    }

    /// Sends as `peal send` does.
    package func send(
        _ audience: String = #"{"all": true}"#,
        from slug: String = "shop",
        content: String = #"{"title": "Hello", "body": "World"}"#,
        _ change: (inout SendRequest) -> Void = { _ in }
    ) async throws -> JobID {
        var request = SendRequest(app: slug, audience: audience, content: content)
        change(&request)
        return try await Jobs(connection).send(request).id
    }

    /// Cancels, pauses or resumes as `peal job` does.
    package func steer(_ job: JobID, _ steering: Jobs.Steering) async throws {
        _ = try await Jobs(connection).steer(job, steering)
    }

    package func status(_ job: JobID) async throws -> JobStatus {
        try await Jobs(connection).status(job)
    }

    // MARK: Who sends

    /// The configuration of a worker in this process, with log lines from errors up.
    package func workerConfiguration(logger: Logger = Logger(level: .error)) -> WorkerConfiguration {
        var configuration = WorkerConfiguration(database: database.configuration(logger: logger), logger: logger)
        configuration.masterKey = masterKey
        configuration.caFile = simulator.caFile
        return configuration
    }

    /// Runs a worker in this process while `body` runs, then stops it gracefully.
    package func withWorker<Value>(
        logger: Logger = Logger(level: .error),
        _ change: (inout WorkerConfiguration) -> Void = { _ in },
        _ body: (Worker) async throws -> Value
    ) async throws -> Value {
        var configuration = workerConfiguration(logger: logger)
        change(&configuration)
        let worker = try Worker(configuration)
        let running = Task { try await worker.run() }
        let value: Value
        do {
            value = try await body(worker)
        } catch {
            await worker.stopNow()
            _ = await running.result
            throw error
        }
        await worker.stop()
        try await running.value
        return value
    }

    /// What a `peal` process needs to know to work here.
    package func environment(logLevel: String = "info") -> [String: String] {
        [
            "PEAL_DATABASE_URL": database.connectionString, "PEAL_MASTER_KEY": Self.masterKeyText,
            "PEAL_CA_FILE": simulator.caFile, "PEAL_LOG_LEVEL": logLevel, "PEAL_LOG_FORMAT": "json",
        ]
    }

    // MARK: What came of it

    /// Waits until a job is complete. Throws, with its status, when that takes too long.
    package func waitUntilCompleted(_ job: JobID, upTo limit: Duration = .seconds(60)) async throws {
        do {
            try await wait(for: "job \(job) to complete", upTo: limit) { try await status(job).hasEnded }
        } catch let error as WaitTimeout {
            let row = try await fixture.text(
                "SELECT row_to_json(s)::text FROM peal.job_status AS s WHERE id = $1",
                [.job(job)]
            )
            throw WaitTimeout("\(error.awaited); it stands at \(row ?? "nothing")")
        }
    }

    /// Promise 1, for one job and all: every term of the status is the count of its rows, no recipient has two of them,
    /// and the terms add up to the audience.
    package func expectExactCounts(
        _ job: JobID,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let status = try await status(job)
        for (outcome, count) in status.outcomes {
            let rows = try await fixture.results(job, outcome)
            #expect(rows == Int64(count), "rows that are \(outcome)", sourceLocation: sourceLocation)
        }
        let sum = status.outcomes.reduce(status.remaining) { $0 + $1.count }
        #expect(status.audience == sum, "\(status.summary)", sourceLocation: sourceLocation)
        let repeated = try await fixture.number(
            """
            SELECT count(*) FROM (
                SELECT FROM peal.recipient_result WHERE job_id = $1
                GROUP BY device_id, CASE WHEN device_id IS NULL THEN external_id END HAVING count(*) > 1
            ) AS repeated
            """,
            [.job(job)]
        )
        #expect(repeated == 0, "recipients with more than one outcome", sourceLocation: sourceLocation)
        try await fixture.expectAccounts(sourceLocation: sourceLocation)
    }

    /// How many tokens the simulator saw more than once, whatever it answered.
    package var tokensSeenTwice: Int {
        simulator.ledger.countsByToken().values.count { $0 > 1 }
    }

    /// Waits until the server has noticed that a killed worker is gone: what it had asked for is carried out until then,
    /// and may take a lease.
    package func waitForSessionsToEnd() async throws {
        try await wait(for: "the sessions of a killed worker to end") {
            try await fixture.number(
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'peal worker'
                """
            ) == 0
        }
    }

    /// How many recipients of a job may have been sent and have no result, or one that says so: what promise 3 bounds, to
    /// be read while nobody has anything in hand.
    package func recipientsInDoubt(_ job: JobID) async throws -> Int {
        Int(
            try await fixture.number(
                """
                SELECT count(*) FROM (
                    SELECT b.size, b.done, b.sending_to FROM peal.batch AS b WHERE b.job_id = $1
                    UNION ALL
                    SELECT d.size, d.done, d.sending_to FROM peal.batch_delayed AS d WHERE d.job_id = $1
                ) AS s
                CROSS JOIN LATERAL generate_series(0, least(s.size, s.sending_to) - 1) AS i (n)
                WHERE get_bit(s.done, i.n) = 0
                """,
                [.job(job)]
            )
                + fixture.number("SELECT count(*) FROM peal.result WHERE job_id = $1 AND outcome = 7", [.job(job)])
        )
    }

    /// Brings the end of every lease on batches and jobs forward to now, as if their holders had been silent for long.
    package func endLeases() async throws {
        try await fixture.query("UPDATE peal.batch SET lease_until = now() WHERE lease_until > now()")
        try await fixture.query("UPDATE peal.job SET lease_until = now() WHERE lease_until > now()")
    }
}

/// Gives a test a pipeline of its own: the app `shop` has credentials, the app `talk` has none, and nobody works yet.
package func withPipeline(
    _ options: SimulatorOptions = SimulatorOptions(),
    _ body: (Pipeline) async throws -> Void
) async throws {
    try await withSendFixture { fixture in try await withPipeline(on: fixture, options, body) }
}

/// The same on a private server of its own, which the test may stop and start.
package func withPipelineOnServer(
    _ options: SimulatorOptions = SimulatorOptions(),
    _ body: (Pipeline, RestartableServer) async throws -> Void
) async throws {
    let server = try await RestartableServer.start()
    do {
        try await withPipeline(on: try await server.makeFixture(), options) { pipeline in
            try await body(pipeline, server)
        }
    } catch {
        try await server.destroy()
        throw error
    }
    try await server.destroy()
}

private func withPipeline(
    on fixture: SendFixture,
    _ options: SimulatorOptions,
    _ body: (Pipeline) async throws -> Void
) async throws {
    let simulator = try ProviderSimulator.start(options)
    defer { simulator.stop() }
    let masterKey = try SealingKey(text: Pipeline.masterKeyText)
    let pipeline = Pipeline(fixture: fixture, simulator: simulator, masterKey: masterKey)
    try await pipeline.addCredentials(to: "shop")
    try await body(pipeline)
}

extension Pipeline {
    /// The same with another connection for the test.
    func on(_ fixture: SendFixture) -> Pipeline {
        Pipeline(fixture: fixture, simulator: simulator, masterKey: masterKey)
    }
}
