import HTTP2
import ProviderSimulator
import PushCore
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct FloodTests {
    @Test func `ten thousand requests over several connections are answered once each`() async throws {
        let rig = try Rig { $0.maximumStreams = 50 }
        try rig.send(10_000)
        let seen = await rig.collector.wait(for: 10_000)
        #expect(seen.isEachOnce(10_000))
        #expect(seen.allSatisfy { $0.kind == .answered && $0.status == 200 })
        #expect(seen.allSatisfy { $0.fields[0]?.utf8.count == 36 && $0.fields[2] == nil })
        #expect(rig.simulator.ledger.acceptedHistogram() == [1: 10_000])
        let status = try await rig.status()
        #expect(status.connectionsOpened > 1 && status.connectionsOpened <= 4)
        #expect(rig.collector.chunks < 5000)
        await rig.end()
    }

    @Test func `a new connection carries one request until the first good answer`() async throws {
        var options = SimulatorOptions()
        options.apns.streamsAtStart = 1000
        options.latencyMilliseconds = 20
        let rig = try Rig(options: options) { $0.maximumConnections = 1 }
        try rig.send(["bad" + String(Rig.token(0).dropFirst(3))] + (1..<200).map(Rig.token))
        _ = await rig.collector.wait(for: 200)
        let connection = try #require(rig.simulator.ledger.connections().first)
        #expect(connection.requests == 200, "\(rig.simulator.ledger.connections())")
        #expect(connection.peakOpenStreams > 1)
        let first = rig.simulator.ledger.requests().prefix(2).map(\.stream)
        #expect(first == [1, 3])
        await rig.end()
    }

    @Test func `the peer's limit is obeyed while it goes from 1 to 1000 and back to 1`() async throws {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 5
        let rig = try Rig(options: options) { $0.maximumConnections = 1 }
        try rig.send(3000)
        await rig.collector.wait { $0.count >= 1000 }
        rig.simulator.control.perform(.settings(maxConcurrentStreams: 1))
        await rig.collector.wait { $0.count >= 2300 }
        rig.simulator.control.perform(.settings(maxConcurrentStreams: 1000))
        let seen = await rig.collector.wait(for: 3000)
        #expect(seen.isEachOnce(3000))
        #expect(seen.allSatisfy { $0.status == 200 })
        #expect(rig.simulator.ledger.acceptedHistogram() == [1: 3000])
        let connection = try #require(rig.simulator.ledger.connections().first)
        #expect(connection.peakOpenStreams > 100 && connection.peakOpenStreams <= 1000)
        #expect(rig.simulator.ledger.connections().count == 1)
        await rig.end()
    }

    @Test func `a limit that falls to 1 with each rejection costs no request`() async throws {
        var options = SimulatorOptions()
        options.apns.lowersStreamsAfterRejection = true
        let rig = try Rig(options: options)
        let tokens = (0..<300).map { number in
            number % 10 == 0 ? "bad40002" + String(Rig.token(number).dropFirst(8)) : Rig.token(number)
        }
        try rig.send(tokens)
        let seen = await rig.collector.wait(for: 300)
        #expect(seen.isEachOnce(300))
        #expect(seen.count { $0.status == 200 } == 270)
        #expect(seen.count { $0.status == 400 } == 30)
        #expect(rig.simulator.ledger.acceptedHistogram() == [1: 270])
        await rig.end()
    }

    @Test func `a peer that allows 100 streams never sees 101`() async throws {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 10
        options.apns.streamsAtStart = 100
        options.apns.streamsAfterAcceptance = 100
        let rig = try Rig(options: options) { $0.initialStreams = 1000 }
        try rig.send(1000)
        let seen = await rig.collector.wait(for: 1000)
        #expect(seen.isEachOnce(1000) && seen.allSatisfy { $0.status == 200 })
        let peaks = rig.simulator.ledger.connections().map(\.peakOpenStreams)
        #expect(peaks.allSatisfy { $0 <= 100 } && peaks.max() == 100)
        await rig.end()
    }

    @Test func `a peer that allows no stream is waited for`() async throws {
        let rig = try Rig { $0.maximumConnections = 1 }
        try rig.send(1)
        _ = await rig.collector.wait(for: 1)
        rig.simulator.control.perform(.settings(maxConcurrentStreams: 0))
        try await waitUntil(rig) { $0.peerStreamLimits == [0] }
        try rig.send(10, tag: 2)
        #expect(try await rig.status().queued == 10)
        rig.simulator.control.perform(.settings(maxConcurrentStreams: 10))
        #expect(await rig.collector.wait(for: 11).allSatisfy { $0.status == 200 })
        await rig.end()
    }

    @Test func `a peer that goes on allowing no stream is given up after the pool's patience`() async throws {
        let rig = try Rig {
            $0.maximumConnections = 1
            $0.connectPatience = .milliseconds(100)
        }
        try rig.send(1)
        _ = await rig.collector.wait(for: 1)
        rig.simulator.control.perform(.settings(maxConcurrentStreams: 0))
        try await waitUntil(rig) { $0.peerStreamLimits == [0] }
        try rig.send(10, tag: 2)
        let seen = await rig.collector.wait(for: 11).filter { $0.tag == 2 }
        #expect(seen.isEachOnce(10))
        #expect(seen.allSatisfy { $0.kind == .unanswered(.noStreamsAllowed) && !$0.mayHaveBeenProcessed })
        await rig.end()
    }

    @Test func `an overloaded peer gets half, on each connection`() async throws {
        let rig = try Rig {
            $0.maximumConnections = 1
            $0.maximumStreams = 200
        }
        try rig.send(100)
        _ = await rig.collector.wait(for: 100)
        #expect(try await rig.status().streamsAllowed == 200)
        rig.client.reportOverload(rig.pool)
        #expect(try await rig.status().streamsAllowed == 100)
        await rig.end()
    }

    @Test func `a renewed provider token is used by requests that were already queued`() async throws {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 200
        options.apns.tokenUpdateIntervalSeconds = 0
        options.apns.streamsAfterAcceptance = 200
        let rig = try Rig(options: options) { $0.maximumConnections = 1 }
        try rig.send(600)
        try await waitUntil(rig) { $0.streamsInFlight == 200 }
        try rig.setProviderToken(issuedAt: WallClock.now().secondsSinceEpoch - 10)
        let seen = await rig.collector.wait(for: 600)
        #expect(seen.isEachOnce(600) && seen.allSatisfy { $0.status == 200 })
        let bearers = rig.simulator.ledger.requests().map(\.bearerHash)
        #expect(Set(bearers).count == 2)
        #expect(bearers.first != bearers.last)
        await rig.end()
    }

    @Test func `a selection sends what it names and nothing else`() async throws {
        let rig = try Rig()
        let batch = try rig.makeBatch((0..<20).map(Rig.token))
        rig.client.submit(batch, tag: 1, requests: .notIn(bitmap: [0xFF, 0xFE, 0x0F]), to: rig.pool)
        rig.client.submit(batch, tag: 2, requests: .indices([19, 3]), to: rig.pool)
        let seen = await rig.collector.wait(for: 3)
        #expect(Set(seen.map { [$0.tag, $0.index] }) == [[1, 8], [2, 3], [2, 19]])
        #expect(Set(rig.simulator.ledger.requests().map(\.token)) == Set([8, 3, 19].map(Rig.token)))
        await rig.end()
    }

    @Test func `the seconds that are left are written when the request is framed, rounded up`() async throws {
        var options = SimulatorOptions()
        options.keepsBodies = true
        let rig = try Rig(options: options)
        let batch = try rig.makeBatch([Rig.token(1)], deadline: WallClock.now() + .seconds(500)) { builder in
            builder.makeBody(
                .bytes(builder.store(#"{"aps":{"alert":"hello"},"left":"#)),
                .secondsLeft,
                .bytes(builder.store("}"))
            )
        }
        rig.client.submit(batch, tag: 1, to: rig.pool)
        #expect(await rig.collector.wait(for: 1).first?.status == 200)
        let body = try #require(rig.simulator.ledger.requests().first?.body)
        let text = String(decoding: body, as: UTF8.self)
        let left = try #require(Int(text.drop { $0 != "f" }.dropFirst(4).dropLast()))
        #expect(left <= 500 && left > 400)
        await rig.end()
    }

    @Test func `a single request is sent and awaited`() async throws {
        let rig = try Rig()
        let response = try await rig.client.send(rig.makeBatch([Rig.token(1)]), to: rig.pool)
        #expect(response.status == 200 && response.body.isEmpty && response.fields[0]?.utf8.count == 36)
        let rejected = try await rig.client.send(
            rig.makeBatch(["bad40002" + String(Rig.token(2).dropFirst(8))]),
            to: rig.pool
        )
        #expect(rejected.status == 400)
        #expect(String(decoding: rejected.body, as: UTF8.self).contains(#""reason""#))
        await rig.end()
        let error = await #expect(throws: HTTP2Error.self) {
            try await rig.client.send(rig.makeBatch([Rig.token(3)]), to: rig.pool)
        }
        #expect(error?.code == .unanswered(.poolClosed, mayHaveBeenProcessed: false))
    }
}

/// Asks until the pool is in the state that is waited for; the suite's time limit bounds it. Each question is a round
/// trip through the loop, so it does not spin.
func waitUntil(_ rig: Rig, _ condition: (PoolStatus) -> Bool) async throws {
    while true {
        let status = try await rig.status()
        if condition(status) { return }
        try Task.checkCancellation()
    }
}
