import HTTP2
import OpenSSL
import ProviderSimulator
import PushCore
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct FaultTests {
    // MARK: GOAWAY and refusals

    static let goodbyes: [GoAway] = [
        GoAway(lastStream: .newest),
        GoAway(lastStream: .graceful),
        GoAway(lastStream: .graceful, then: .refuseNew),
        GoAway(lastStream: .belowNewest(20)),
        GoAway(lastStream: .belowNewest(20), errorCode: 2, debugData: #"{"reason":"Shutdown"}"#),
        GoAway(lastStream: .newest, then: .keepOpen),
    ]

    @Test(arguments: goodbyes)
    func `a GOAWAY in mid-flood loses nothing and repeats nothing`(goodbye: GoAway) async throws {
        let rig = try Rig(
            script: scripted { script in
                script.latencyMilliseconds = 2
                script.rules = [Rule(.goAway(goodbye), skip: 300, times: 3, every: 400)]
            }
        )
        try rig.send(3000)
        let seen = await rig.collector.wait(for: 3000)
        #expect(seen.isEachOnce(3000))
        #expect(seen.allSatisfy { $0.kind == .answered && $0.status == 200 })
        #expect(rig.simulator.ledger.acceptedHistogram() == [1: 3000])
        #expect(try await rig.status().goAways >= 1)
        await rig.end()
    }

    @Test func `answers that come after a graceful GOAWAY are taken, and nothing is sent again`() async throws {
        // Long enough for a busy machine to see all ten out at once.
        let rig = try Rig(script: scripted { $0.latencyMilliseconds = 1000 }) { $0.maximumConnections = 1 }
        try rig.send(1)
        _ = await rig.collector.wait(for: 1)
        try rig.send((1..<11).map(Rig.token), tag: 2)
        #expect(await rig.simulator.ledger.wait { _ in true })
        try await waitUntil(rig) { $0.streamsInFlight == 10 }
        rig.simulator.control.perform(.goAway(GoAway(lastStream: .newest)))
        let seen = await rig.collector.wait(for: 11)
        #expect(seen.allSatisfy { $0.status == 200 })
        #expect(rig.simulator.ledger.totals.requests == 11)
        await rig.end()
    }

    @Test func `a refused stream goes out again at once and costs no answer`() async throws {
        let rig = try Rig(script: scripted { $0.rules = [Rule(.refuseStream, every: 7)] })
        try rig.send(2000)
        let seen = await rig.collector.wait(for: 2000)
        #expect(seen.isEachOnce(2000))
        #expect(seen.allSatisfy { $0.status == 200 })
        #expect(rig.simulator.ledger.acceptedHistogram() == [1: 2000])
        #expect(try await rig.status().requestsSentAgain >= 2000 / 7)
        await rig.end()
    }

    @Test func `a request that is always refused is given up as surely not processed`() async throws {
        let rig = try Rig(script: scripted { $0.rules = [Rule(.refuseStream, tokenPrefix: Rig.token(3))] })
        try rig.send(10)
        let seen = await rig.collector.wait(for: 10)
        #expect(seen.isEachOnce(10))
        #expect(seen.count { $0.status == 200 } == 9)
        let refused = seen.with(.unanswered(.refused))
        #expect(refused.map(\.index) == [3] && refused.allSatisfy { !$0.mayHaveBeenProcessed })
        #expect(rig.simulator.ledger.count(token: Rig.token(3)).requests == 101)
        await rig.end()
    }

    @Test func `a reset stream is unanswered with its code, alone`() async throws {
        let rig = try Rig(script: scripted { $0.rules = [Rule(.resetStream(code: 11), skip: 5, times: 1)] })
        try rig.send(100)
        let seen = await rig.collector.wait(for: 100)
        let reset = seen.with(.unanswered(.streamReset(code: 11)))
        #expect(reset.count == 1 && reset.allSatisfy { $0.mayHaveBeenProcessed })
        #expect(seen.isEachOnce(100) && seen.count { $0.status == 200 } == 99)
        await rig.end()
    }

    // MARK: Cut and silent connections

    @Test(arguments: [ConnectionCut.reset, .close])
    func `a cut connection leaves in doubt only what was on the wire`(cut: ConnectionCut) async throws {
        let rig = try Rig(
            script: scripted { script in
                script.latencyMilliseconds = 2
                script.rules = [Rule(.drop(cut), skip: 700, times: 2, every: 900)]
            }
        ) { $0.maximumConnections = 2 }
        try rig.send(4000)
        let seen = await rig.collector.wait(for: 4000)
        #expect(seen.isEachOnce(4000))
        let lost = seen.with(.unanswered(.connectionLost))
        #expect(!lost.isEmpty && lost.count <= 2000)
        #expect(lost.allSatisfy { $0.mayHaveBeenProcessed })
        #expect(seen.count { $0.status == 200 } == 4000 - lost.count)
        // Nothing was sent twice, in doubt or not.
        let counts = rig.simulator.ledger.countsByToken()
        #expect(counts.values.allSatisfy { $0 == 1 })
        await rig.end()
    }

    @Test func `a silent stream times out alone`() async throws {
        let rig = try Rig(script: scripted { $0.rules = [Rule(.silence, skip: 10, every: 50)] })
        try rig.send(1000, timeLimit: .seconds(2))
        let seen = await rig.collector.wait(for: 1000)
        #expect(seen.isEachOnce(1000))
        let silent = seen.with(.unanswered(.timedOut))
        #expect(silent.count == rig.simulator.ledger.totals.unanswered && !silent.isEmpty)
        #expect(silent.allSatisfy { $0.mayHaveBeenProcessed })
        #expect(seen.count { $0.status == 200 } == 1000 - silent.count)
        // The slots are free again.
        try rig.send((2000..<2200).map(Rig.token), tag: 2, timeLimit: .seconds(20))
        #expect(try await rig.status().streamsInFlight <= 204)
        await rig.end()
    }

    @Test func `a connection that answers nothing any more is left`() async throws {
        let rig = try Rig(script: scripted { $0.rules = [Rule(.stopAnswering, tokenPrefix: Rig.token(10))] }) {
            $0.maximumConnections = 1
        }
        try rig.send(1)
        _ = await rig.collector.wait(for: 1)
        try rig.send((10..<20).map(Rig.token), tag: 2, timeLimit: .milliseconds(200))
        let timedOut = await rig.collector.wait(for: 11).with(.unanswered(.timedOut))
        #expect(timedOut.count == 10)
        try rig.send((20..<30).map(Rig.token), tag: 3)
        let seen = await rig.collector.wait(for: 21).filter { $0.tag == 3 }
        #expect(seen.allSatisfy { $0.status == 200 })
        #expect(try await rig.status().connectionsOpened == 2)
        await rig.end()
    }

    @Test func `a peer that went away without a word is noticed by PING, and sending goes on elsewhere`() async throws {
        let rig = try Rig(script: scripted { $0.rules = [Rule(.stopReading, tokenPrefix: Rig.token(10))] }) {
            $0.maximumConnections = 1
            $0.pingAfterQuiet = .milliseconds(100)
            $0.pingTimeout = .milliseconds(100)
        }
        try rig.send(1)
        _ = await rig.collector.wait(for: 1)
        try rig.send((10..<23).map(Rig.token), tag: 2)
        let lost = await rig.collector.wait(for: 14).filter { $0.tag == 2 }
        #expect(lost.allSatisfy { $0.kind == .unanswered(.connectionLost) && $0.mayHaveBeenProcessed })
        try rig.send((30..<43).map(Rig.token), tag: 3)
        #expect(await rig.collector.wait(for: 27).filter { $0.tag == 3 }.allSatisfy { $0.status == 200 })
        let message = try #require(try await rig.status().lastError)
        #expect(message.contains("PING"))
        await rig.end()
    }

    @Test func `a slow peer that answers PING keeps its connection`() async throws {
        let rig = try Rig(script: scripted { $0.latencyMilliseconds = 400 }) {
            $0.pingAfterQuiet = .milliseconds(50)
            $0.pingTimeout = .milliseconds(300)
            $0.maximumConnections = 1
        }
        try rig.send(2)
        #expect(await rig.collector.wait(for: 2).allSatisfy { $0.status == 200 })
        let connection = try #require(rig.simulator.ledger.connections().first)
        #expect(connection.pings >= 2)
        #expect(rig.simulator.ledger.connections().count == 1)
        await rig.end()
    }

    @Test func `an idle connection is not pinged`() async throws {
        let rig = try Rig {
            // More than an answer takes on a busy machine: with a request out a PING is in order.
            $0.pingAfterQuiet = .milliseconds(300)
            $0.idleTimeout = .milliseconds(1000)
        }
        try rig.send(1)
        _ = await rig.collector.wait(for: 1)
        try await waitUntil(rig) { $0.activeConnections == 0 }
        #expect(rig.simulator.ledger.connections().map(\.pings) == [0])
        await rig.end()
    }

    /// In a process of its own: other tests open descriptors too.
    @Test func `descriptors do not leak over reconnects`() async {
        await #expect(processExitsWith: .success) {
            let rig = try Rig(script: scripted { $0.rules = [Rule(.drop(.reset))] }) {
                $0.maximumConnections = 1
                $0.backoff = Backoff(first: .milliseconds(1), longest: .milliseconds(1))
            }
            try rig.send(5)
            _ = await rig.collector.wait(for: 5)
            let before = openDescriptors()
            try rig.send((0..<100).map(Rig.token), tag: 2)
            let seen = await rig.collector.wait(for: 105)
            #expect(seen.allSatisfy { $0.kind == .unanswered(.connectionLost) })
            #expect(try await rig.status().connectionsOpened == 105)
            #expect(openDescriptors() <= before + 4)
            await rig.end()
        }
    }

    @Test func `case 117: a hundred pools that were used once leave no socket behind`() async throws {
        let rig = try Rig()
        var configuration = PoolConfiguration(
            host: "localhost",
            port: UInt16(rig.simulator.endpoint(rig.role).port),
            tls: try TLSContext(trustingAlso: rig.simulator.caFile)
        )
        configuration.idleTimeout = .milliseconds(200)
        // Without a bearer the answer is a refusal, and an answer all the same.
        for number in 0..<100 {
            let batch = try rig.makeBatch([Rig.token(number)])
            rig.client.submit(batch, tag: number, to: rig.client.makePool(configuration))
        }
        let seen = await rig.collector.wait(for: 100)
        #expect(Set(seen.map(\.tag)).count == 100 && seen.allSatisfy { $0.kind == .answered && $0.status == 403 })
        #expect(await rig.simulator.ledger.wait(upTo: .seconds(20)) { $0.connectionsOpen == 0 })
        #expect(rig.simulator.ledger.connections().count == 100)
        await rig.end()
    }
}
