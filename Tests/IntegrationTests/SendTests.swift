import Postgres
import PealRuntime
import ProviderSimulator
import PushCore
import TestSupport
import Testing

/// One worker that sends: from the row to the results.
@Suite struct SendTests {
    @Test(.timeLimit(.minutes(4)))
    func `a job reaches every device on its own route and ends with one result each`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(300)
            try await pipeline.addDevices(50, ["ab"], environment: "sandbox")
            let job = try await pipeline.send()
            try await pipeline.withWorker { _ in try await pipeline.waitUntilCompleted(job) }
            let status = try await pipeline.status(job)
            #expect(status.audience == 350)
            #expect(status.count("accepted") == 350)
            let requests = pipeline.simulator.ledger.requests()
            #expect(requests.count { $0.role == .apnsProduction } == 150)
            #expect(requests.count { $0.role == .apnsSandbox } == 50)
            #expect(requests.count { $0.role == .fcm } == 150)
            #expect(pipeline.simulator.ledger.acceptedHistogram() == [1: 350])
            try await pipeline.expectExactCounts(job)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `an empty audience completes at once`() async throws {
        try await withPipeline { pipeline in
            let none = try await pipeline.send()
            let nobody = try await pipeline.send(#"{"filter": {"tag.city": "nowhere"}}"#)
            try await pipeline.withWorker { _ in
                for job in [none, nobody] { try await pipeline.waitUntilCompleted(job, upTo: .seconds(10)) }
            }
            for job in [none, nobody] {
                let status = try await pipeline.status(job)
                #expect(status.state == "completed")
                #expect(status.audience == 0)
                try await pipeline.expectExactCounts(job)
            }
            #expect(pipeline.simulator.ledger.totals.requests == 0)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a push is sent with the transaction that inserted it, and not at all when that rolls back`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(2, ["ab"])
            try await pipeline.withWorker { _ in
                let order = try await pipeline.database.connect()
                try await order.execute("BEGIN")
                let lost = try await insertOrder(order, "user-1")
                try await order.execute("ROLLBACK")
                try await order.execute("BEGIN")
                let kept = try await insertOrder(order, "user-2")
                #expect(pipeline.simulator.ledger.totals.requests == 0, "sent before the commit")
                try await order.execute("COMMIT")
                await order.close()
                try await pipeline.waitUntilCompleted(kept, upTo: .seconds(10))
                let rows = try await pipeline.fixture.number(
                    "SELECT count(*) FROM peal.job WHERE id = $1",
                    [.job(lost)]
                )
                #expect(rows == 0)
                #expect(pipeline.simulator.ledger.totals.requests == 1)
                #expect(try await pipeline.fixture.results(kept, "accepted") == 1)
            }
        }
    }

    /// Inserts a push to one user as a shop does within its own transaction.
    private func insertOrder(_ connection: PostgresConnection, _ user: String) async throws -> JobID {
        let insert = SQLStatement(
            name: "test_order",
            text: """
                INSERT INTO peal.job (app, audience, content)
                VALUES ('shop', jsonb_build_object('external_ids', jsonb_build_array($1::text)), '{"title": "Paid"}')
                RETURNING id
                """
        )
        return JobID(try await connection.query(insert, [.text(user)]).uuid(0, 0))
    }

    @Test(.timeLimit(.minutes(4)))
    func `case 131: a push goes out at once though the listening connection was cut`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(2, ["ab"])
            try await pipeline.withWorker { _ in
                for (number, user) in ["user-1", "user-2"].enumerated() {
                    let push = try await pipeline.send(#"{"external_ids": ["\#(user)"]}"#)
                    // What must be prompt is the push. That its job is over may be noticed by a round of the scheduler.
                    #expect(await pipeline.simulator.ledger.waitUntilAccepted(number + 1, upTo: .seconds(10)))
                    try await pipeline.waitUntilCompleted(push)
                    #expect(try await pipeline.status(push).count("accepted") == 1)
                    try await pipeline.fixture.terminateOthers()
                }
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `everything works through PgBouncer in transaction mode`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(2_000)
            try await withPgBouncer(pipeline.database) { bouncer in
                try await pipeline.withWorker({
                    $0.directDatabase = $0.database
                    $0.database = bouncer
                }) { _ in
                    let campaign = try await pipeline.send()
                    let push = try await pipeline.send(#"{"external_ids": ["user-7"]}"#)
                    for job in [push, campaign] {
                        try await pipeline.waitUntilCompleted(job)
                        try await pipeline.expectExactCounts(job)
                    }
                    #expect(try await pipeline.status(campaign).count("accepted") == 2_000)
                    #expect(try await pipeline.status(push).count("accepted") == 1)
                }
                // Case 133: a lock of a session would stay with the pooler's connection.
                let locks = try await pipeline.fixture.number(
                    """
                    SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
                    WHERE l.locktype = 'advisory' AND d.datname = current_database()
                    """
                )
                #expect(locks == 0)
            }
        }
    }
}
