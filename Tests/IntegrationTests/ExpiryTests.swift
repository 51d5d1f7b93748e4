import PealRuntime
import Postgres
import ProviderSimulator
import PushCore
import TestSupport
import Testing

@Suite struct ExpiryTests {
    @Test(.timeLimit(.minutes(4)))
    func `promise 5: what waited until after its expiry is never sent`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(200)
            let jobs = [
                try await pipeline.send { $0.ttlSeconds = 1 },
                try await pipeline.send(#"{"external_ids": ["user-1", "user-2"]}"#) { $0.ttlSeconds = 1 },
            ]
            try await wait(for: "the jobs to expire") {
                try await pipeline.fixture.number("SELECT count(*) FROM peal.job WHERE expires_at > now()") == 0
            }
            try await pipeline.withWorker { _ in
                for job in jobs { try await pipeline.waitUntilCompleted(job) }
            }
            #expect(pipeline.simulator.ledger.totals.requests == 0)
            #expect(try await pipeline.status(jobs[0]).count("expired") == 200)
            #expect(try await pipeline.status(jobs[1]).count("expired") == 2)
            for job in jobs { try await pipeline.expectExactCounts(job) }
        }
    }

    @Test(.timeLimit(.minutes(4)), arguments: [false, true])
    func `promise 5: no attempt is made after the expiry, whatever the provider does`(isSilent: Bool) async throws {
        try await withPipeline { pipeline in
            let refusal: [Rule] = [
                Rule(.reject(reason: "ServiceUnavailable"), role: .apnsProduction),
                Rule(.fault(.unavailable), role: .fcm),
            ]
            pipeline.simulator.control.set(
                rules: isSilent ? [Rule(.silence, role: .apnsProduction), Rule(.silence, role: .fcm)] : refusal
            )
            try await pipeline.addDevices(200)
            let job = try await pipeline.send { $0.ttlSeconds = 8 }
            try await pipeline.withWorker { _ in try await pipeline.waitUntilCompleted(job, upTo: .seconds(50)) }
            let status = try await pipeline.status(job)
            #expect(status.audience == 200)
            #expect(status.count("expired") + status.count("unknown") == 200, "\(status.byReason)")
            let expiry = try await pipeline.fixture.number(
                "SELECT floor(extract(epoch FROM expires_at) * 1000) FROM peal.job WHERE id = $1",
                [.job(job)]
            )
            let sent = pipeline.simulator.ledger.requests().filter { $0.role != .oauth }
            #expect(!sent.isEmpty)
            // A request is entered when the simulator has read it, which may be a moment after it was framed.
            #expect(sent.filter { $0.receivedAt / 1_000 > expiry + 250 }.isEmpty)
            try await pipeline.expectExactCounts(job)
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 5: the provider is told the time that is left`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(20)
            let job = try await pipeline.send { $0.ttlSeconds = 100 }
            let expiry = try await pipeline.fixture.number(
                "SELECT floor(extract(epoch FROM expires_at)) FROM peal.job WHERE id = $1",
                [.job(job)]
            )
            try await wait(for: "some seconds in the queue") {
                try await pipeline.fixture.number(
                    "SELECT count(*) FROM peal.job WHERE expires_at < now() + interval '97 seconds'"
                ) == 1
            }
            try await pipeline.withWorker { _ in try await pipeline.waitUntilCompleted(job) }
            let requests = pipeline.simulator.ledger.requests()
            for request in requests where request.role.isAPNs {
                #expect(request.expiration.flatMap { Int64($0) } == expiry)
            }
            for request in requests where request.role == .fcm {
                let left = request.expiration.flatMap { Int64($0.dropLast()) } ?? -1
                let atMost = expiry + 1 - request.receivedAt / 1_000_000
                #expect((atMost - 20...atMost).contains(left) && left <= 97, "ttl \(request.expiration ?? "absent")")
            }
        }
    }
}
