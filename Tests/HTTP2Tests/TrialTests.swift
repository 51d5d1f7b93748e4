import HTTP2
import ProviderSimulator
import PushCore
import Testing

/// Requests over which connections end.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct TrialTests {
    // The simulator does not close: bytes that it had not read would take the GOAWAY away from us.
    private static let goodbye = GoAway(lastStream: .zero, then: .keepOpen)
    private static let ending = Behaviour.goAway(goodbye)

    // As many streams as a new connection to APNs is trusted with, and one to FCM.
    @Test(arguments: [1, 100])
    func `a request that ends every connection is given up, and the others arrive once`(
        initialStreams: Int
    ) async throws {
        let culprit = Rig.token(500)
        var options = SimulatorOptions()
        options.apns.streamsAtStart = UInt32(initialStreams)
        let rig = try Rig(
            options: options,
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
        // On each of the four connections of the pool, on new ones, and in trials.
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
        var options = SimulatorOptions()
        options.apns.streamsAtStart = 4
        let rig = try Rig(options: options, script: scripted { $0.rules = [Rule(Self.ending)] }) {
            $0.initialStreams = 4
            $0.backoff = Backoff(first: .seconds(600), longest: .seconds(600))
            $0.connectPatience = .seconds(600)
        }
        try rig.send([Rig.token(0), Rig.token(1)], tag: 1)
        try rig.send([Rig.token(2)], tag: 2, deadline: WallClock.now() + .seconds(4))
        try rig.send([Rig.token(3)], tag: 3)
        // Two trials in a row have ended: the next one waits.
        _ = await rig.collector.wait(for: 2)
        #expect(rig.collector.seen.allSatisfy { $0.tag == 1 && $0.kind == .unanswered(.refused) })
        #expect(try await rig.status().queued == 2)
        rig.client.cancel(tag: 3)
        let seen = await rig.collector.wait(for: 4)
        #expect(seen.first { $0.tag == 2 }?.kind == .expired)
        #expect(seen.first { $0.tag == 3 }?.kind == .cancelled)
        #expect(try await rig.status().queued == 0)
        await rig.end()
    }

    @Test func `many such requests are found one by one, and the others arrive once`() async throws {
        let culprits = (0..<1_000).filter { $0 % 20 == 7 }
        let rig = try Rig(
            script: scripted { $0.rules = culprits.map { Rule(Self.ending, tokenPrefix: Rig.token($0)) } }
        ) {
            $0.backoff = Backoff(first: .milliseconds(500), longest: .seconds(60))
        }
        try rig.send(1_000)
        let seen = await rig.collector.wait(for: 1_000)
        #expect(seen.isEachOnce(1_000))
        #expect(seen.with(.unanswered(.refused)).map(\.index).sorted() == culprits)
        #expect(seen.count { $0.status == 200 } == 950)
        await rig.end()
    }

    @Test func `after a burst of goodbyes that is over, all goes on as before`() async throws {
        let rig = try Rig(script: scripted { $0.latencyMilliseconds = 50 })
        try rig.send(20_000)
        for round in 1...8 {
            _ = await rig.collector.wait(for: round * 400)
            rig.simulator.control.perform(.goAway(Self.goodbye))
        }
        let seen = await rig.collector.wait(for: 20_000)
        #expect(seen.isEachOnce(20_000))
        #expect(seen.count { $0.status == 200 } >= 19_990)
        await rig.end()
    }

    @Test func `what the peer said before it hung up is read though nothing can be written`() async throws {
        let ending = Behaviour.goAway(GoAway(lastStream: .zero, then: .closeNow))
        let rig = try Rig(script: scripted { $0.rules = [Rule(ending, skip: 500, every: 500)] })
        try rig.send(20_000)
        let seen = await rig.collector.wait(for: 20_000)
        #expect(seen.isEachOnce(20_000))
        let kinds = Dictionary(grouping: seen) { "\($0.kind)" }.mapValues(\.count)
        #expect(seen.allSatisfy { !$0.mayHaveBeenProcessed || $0.kind == .answered }, "\(kinds)")
        await rig.end()
    }
}
