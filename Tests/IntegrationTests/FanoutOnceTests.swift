import Postgres
import PealRuntime
import ProviderSimulator
import PushCore
import Synchronization
import TestSupport
import Testing

@Suite struct FanoutOnceTests {
    @Test(.timeLimit(.minutes(4)))
    func `promise 2: segments and ids that lead to the same token make one message`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(900)
            try await pipeline.fixture.query(
                """
                INSERT INTO peal.segment (app_id, name, filter)
                SELECT id, s.name, s.filter::jsonb
                FROM peal.app
                CROSS JOIN (VALUES ('low', '{"tag.n": {"lte": 600}}'), ('high', '{"tag.n": {"gte": 400}}')) AS s (name, filter)
                WHERE slug = 'shop'
                """
            )
            let job = try await pipeline.send(
                #"{"segments": ["low", "high"], "external_ids": ["user-1", "user-500", "user-500", "user-900"]}"#
            )
            try await pipeline.withWorker { _ in try await pipeline.waitUntilCompleted(job) }
            #expect(try await pipeline.status(job).audience == 900)
            #expect(pipeline.simulator.ledger.acceptedHistogram() == [1: 900])
            try await pipeline.expectExactCounts(job)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 2: devices that come, go and return while the fan-out runs get one message or none`() async throws {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 20
        try await withPipeline(options) { pipeline in
            try await pipeline.addDevices(6_000)
            let isOver = Mutex(false)
            let churn = Task {
                try await withDevices(comingAndGoingIn: pipeline.database) { isOver.withLock { $0 } }
            }
            let jobs = [
                try await pipeline.send(),
                try await pipeline.send(#"{"filter": {"tag.n": {"gt": 3000}}}"#),
            ]
            try await pipeline.withWorker { _ in
                for job in jobs { try await pipeline.waitUntilCompleted(job, upTo: .seconds(90)) }
            }
            isOver.withLock { $0 = true }
            let changes = try await churn.value
            #expect(changes > 20, "hardly a device changed during the run")
            for job in jobs { try await pipeline.expectExactCounts(job) }
            try await expectOncePerJob(pipeline, jobs)
        }
    }

    /// No message of a job goes to a token twice. The collapse id, by default absent, tells the jobs apart no better
    /// than the apns-id does: its first half is the job's.
    private func expectOncePerJob(_ pipeline: Pipeline, _ jobs: [JobID]) async throws {
        let requests = pipeline.simulator.ledger.requests().filter { $0.role.isAPNs }
        for job in jobs {
            let prefix = String("\(job)".prefix(18))
            let tokens = requests.filter { $0.messageID?.hasPrefix(prefix) ?? false }.map(\.token)
            #expect(tokens.count == Set(tokens).count, "a token got a job's message twice")
        }
        let most = pipeline.simulator.ledger.countsByToken().values.max() ?? 0
        #expect(most <= jobs.count)
    }

    /// Registers new devices, removes some and registers the same tokens again, until told to stop.
    private func withDevices(
        comingAndGoingIn database: TestDatabase,
        isOver: () -> Bool
    ) async throws -> Int {
        let connection = try await database.connect()
        let change = SQLStatement(
            name: "test_churn",
            text: """
                WITH gone AS MATERIALIZED (
                    SELECT d.channel, d.token, d.external_id FROM peal.device AS d
                    WHERE d.external_id IN ('user-' || $1::int, 'user-' || ($1::int + 3000))
                )
                SELECT
                    peal.unregister_device('shop', jsonb_build_object('external_id', g.external_id)),
                    peal.register_device('shop', to_jsonb(g) || jsonb_build_object('tags', jsonb_build_object('n', $1::int))),
                    peal.register_device('shop', jsonb_build_object(
                        'channel', 'android', 'token', 'ok:new-' || $1::int, 'tags', jsonb_build_object('n', $1::int)
                    ))
                FROM gone AS g
                """
        )
        var changes = 0
        while !isOver() {
            try await connection.query(change, [.int32(Int32(changes % 3_000) + 1)])
            changes += 1
        }
        await connection.close()
        return changes
    }
}
