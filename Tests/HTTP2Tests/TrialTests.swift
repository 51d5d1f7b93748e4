import HTTP2
import ProviderSimulator
import PushCore
import Testing

/// Requests over which connections end.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct TrialTests {
    // The simulator does not close: bytes that it had not read would take the GOAWAY away from us.
    private static let ending = Behaviour.goAway(GoAway(lastStream: .zero, then: .keepOpen))

    // As many streams as a new connection to APNs is trusted with, and one to FCM.
    @Test(arguments: [1, 100])
    func `a request that ends every connection is given up, and the others arrive once`(
        initialStreams: Int
    ) async throws {
        let culprit = Rig.token(500)
        let rig = try Rig(
            script: scripted { script in
                script.latencyMilliseconds = 2
                script.rules = [Rule(Self.ending, tokenPrefix: culprit)]
            }
        ) {
            $0.initialStreams = initialStreams
            // As in production: were the others to wait with it, the time limit would not do.
            $0.backoff = Backoff(first: .milliseconds(500), longest: .seconds(60))
        }
        try rig.send(2000)
        let seen = await rig.collector.wait(for: 2000)
        #expect(seen.isEachOnce(2000))
        #expect(
            seen.count { $0.status == 200 } == 1999,
            "\(Dictionary(grouping: seen) { "\($0.kind)" }.mapValues(\.count))"
        )
        let refused = seen.with(.unanswered(.refused))
        #expect(refused.map(\.index) == [500] && refused.allSatisfy { !$0.mayHaveBeenProcessed })
        // On each of the four connections of the pool, on a new one or two, and three times by itself.
        #expect(rig.simulator.ledger.count(token: culprit).requests <= 10)
        await rig.end()
    }

    @Test func `a peer that ends every connection is given up request by request`() async throws {
        let rig = try Rig(script: scripted { $0.rules = [Rule(Self.ending)] })
        try rig.send(20)
        let seen = await rig.collector.wait(for: 20)
        #expect(seen.isEachOnce(20))
        #expect(seen.allSatisfy { $0.kind == .unanswered(.refused) && !$0.mayHaveBeenProcessed })
        #expect(rig.simulator.ledger.totals.requests <= 200)
        await rig.end()
    }

    @Test func `a request under suspicion expires and is cancelled like any other`() async throws {
        let rig = try Rig(script: scripted { $0.rules = [Rule(Self.ending)] }) {
            $0.initialStreams = 2
            $0.backoff = Backoff(first: .seconds(600), longest: .seconds(600))
            $0.connectPatience = .seconds(600)
        }
        try rig.send([Rig.token(0)], tag: 1, deadline: WallClock.now() + .seconds(2))
        try rig.send([Rig.token(1)], tag: 2)
        try await waitUntil(rig) { $0.goAways == 1 && $0.activeConnections == 0 && $0.queued == 2 }
        rig.client.cancel(tag: 2)
        let seen = await rig.collector.wait(for: 2)
        #expect(seen.first { $0.tag == 1 }?.kind == .expired)
        #expect(seen.first { $0.tag == 2 }?.kind == .cancelled)
        #expect(try await rig.status().queued == 0)
        await rig.end()
    }
}
