import Postgres
import PealRuntime
import ProviderSimulator
import PushCore
import TestSupport
import Testing

@Suite struct NeighbourTests {
    @Test(.timeLimit(.minutes(4)))
    func `promise 9: an app with broken credentials and a silent provider costs its neighbour nothing`() async throws {
        let silent = try ProviderSimulator.start()
        defer { silent.stop() }
        silent.control.set(rules: [Rule(.silence, role: .apnsProduction)])
        silent.control.set { $0.oauth = .silence }
        try await withPipeline { pipeline in
            // The neighbour's providers say nothing, neither to messages nor to the request for an access token.
            try await pipeline.fixture.query("INSERT INTO peal.app (slug) VALUES ('broken')")
            try await pipeline.addCredentials(to: "broken", of: silent)
            try await pipeline.addDevices(6_000, to: "broken")
            try await pipeline.addDevices(2_000, to: "shop")
            try await pipeline.withWorker { _ in
                let stuck = try await pipeline.send(from: "broken")
                #expect(await silent.ledger.wait(upTo: .seconds(30)) { $0.requests(to: .apnsProduction) > 0 })
                let job = try await pipeline.send(from: "shop")
                try await pipeline.waitUntilCompleted(job, upTo: .seconds(25))
                #expect(try await pipeline.status(job).count("accepted") == 2_000)
                let other = try await pipeline.status(stuck)
                #expect(!other.hasEnded)
                #expect(other.count("accepted") == 0)
                try await pipeline.fixture.expectAccounts()
                try await pipeline.steer(stuck, .cancel)
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 9: pushes do not wait behind thousands of another app whose provider is slow`() async throws {
        let slow = try ProviderSimulator.start()
        defer { slow.stop() }
        slow.control.set(rules: [Rule(.accept, delayMilliseconds: 5_000)])
        try await withPipeline { pipeline in
            try await pipeline.fixture.query("INSERT INTO peal.app (slug) VALUES ('slow')")
            try await pipeline.addCredentials(to: "slow", of: slow)
            try await pipeline.addDevices(3_000, to: "slow")
            try await pipeline.addDevices(10, to: "shop")
            try await pipeline.fixture.query(
                """
                INSERT INTO peal.job (app, audience, content)
                SELECT 'slow', jsonb_build_object('device_ids', jsonb_build_array(d.id)), '{"title": "x"}'
                FROM peal.device AS d JOIN peal.app AS a ON a.id = d.app_id WHERE a.slug = 'slow'
                """
            )
            try await pipeline.withWorker { _ in
                #expect(await slow.ledger.wait(upTo: .seconds(30)) { $0.requests(to: .apnsProduction) > 0 })
                for number in 1...10 {
                    let push = try await pipeline.send(#"{"external_ids": ["user-\#(number)"]}"#, from: "shop")
                    try await pipeline.waitUntilCompleted(push, upTo: .seconds(10))
                    #expect(try await pipeline.status(push).count("accepted") == 1)
                }
                let open = try await pipeline.fixture.number(
                    "SELECT count(*) FROM peal.job WHERE app = 'slow' AND completed_at IS NULL"
                )
                #expect(open > 1_500, "the slow app was done before its neighbour")
                try await pipeline.fixture.expectAccounts()
                try await pipeline.fixture.query(
                    "SELECT peal.cancel_job(j.id) FROM peal.job AS j WHERE j.app = 'slow' AND j.completed_at IS NULL"
                )
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `promise 9: a job that cannot be sent does not hold up other jobs`() async throws {
        try await withPipeline { pipeline in
            try await pipeline.addDevices(100, to: "talk")
            try await pipeline.addDevices(100, to: "shop")
            let broken = try await pipeline.send(from: "talk")
            let sound = try await pipeline.send(from: "shop")
            try await pipeline.withWorker { _ in
                for job in [broken, sound] { try await pipeline.waitUntilCompleted(job, upTo: .seconds(30)) }
            }
            #expect(try await pipeline.status(broken).byReason == #"{"rejected:no_credential": 100}"#)
            #expect(try await pipeline.status(sound).count("accepted") == 100)
        }
    }

    @Test(.timeLimit(.minutes(4)), arguments: [Lane.transactional, Lane.call])
    func `promise 10: an urgent push does not wait behind a campaign to a slow provider`(lane: Lane) async throws {
        var options = SimulatorOptions()
        options.apns.streamsAfterAcceptance = 20
        options.fcm.maximumConcurrentStreams = 20
        try await withPipeline(options) { pipeline in
            try await pipeline.addDevices(8_000)
            // Only what the campaign sends is slow: it alone has a collapse id's topic to be told apart by, the token.
            try await pipeline.addDevices(10, ["a0", "quick:"])
            pipeline.simulator.control.set(
                rules: [
                    Rule(.accept, tokenPrefix: "ab", delayMilliseconds: 2_000),
                    Rule(.accept, tokenPrefix: "ok:", delayMilliseconds: 2_000),
                ]
            )
            try await pipeline.withWorker { _ in
                let campaign = try await pipeline.send(#"{"filter": {"tag.n": {"lte": 8000}}}"#)
                #expect(await pipeline.simulator.ledger.waitUntil(160, upTo: .seconds(30)))
                for number in 8_001...8_010 {
                    let push = try await pipeline.send(#"{"external_ids": ["user-\#(number)"]}"#) {
                        $0.lane = lane.name
                    }
                    try await pipeline.waitUntilCompleted(push, upTo: .seconds(10))
                    #expect(try await pipeline.status(push).count("accepted") == 1)
                }
                let status = try await pipeline.status(campaign)
                #expect(!status.hasEnded, "the campaign was over before the pushes were")
                try await pipeline.steer(campaign, .cancel)
            }
            try await pipeline.fixture.expectAccounts()
        }
    }
}
