import HTTP2
import OpenSSL
import ProviderSimulator
import PushCore
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct ConnectingTests {
    @Test func `a peer that accepts TCP and says nothing is given up, and nothing was sent`() async throws {
        let rig = try Rig(script: scripted { $0.ignoresNewConnections = [.apnsProduction] }) {
            $0.handshakeTimeout = .milliseconds(100)
            $0.connectPatience = .milliseconds(300)
        }
        try rig.send(20)
        let seen = await rig.collector.wait(for: 20)
        #expect(seen.isEachOnce(20))
        #expect(seen.allSatisfy { $0.kind == .unanswered(.tlsFailed) && !$0.mayHaveBeenProcessed })
        #expect(try await rig.status().connectionsFailed >= 1)
        await rig.end()
    }

    @Test func `a pool heals by itself when the peer comes back`() async throws {
        let rig = try Rig(script: scripted { $0.resetsNewConnections = [.apnsProduction] })
        try rig.send(50)
        try await waitUntil(rig) { $0.connectionsFailed >= 3 }
        rig.simulator.control.reset()
        let seen = await rig.collector.wait(for: 50)
        #expect(seen.isEachOnce(50) && seen.allSatisfy { $0.status == 200 })
        await rig.end()
    }

    @Test func `case 83: a port where nobody listens is tried for the pool, not once a request`() async throws {
        let port = try FreePort.make()
        let rig = try Rig {
            $0.port = port
            $0.connectPatience = .milliseconds(100)
        }
        try rig.send(1000)
        let seen = await rig.collector.wait(for: 1000)
        #expect(seen.isEachOnce(1000))
        #expect(seen.allSatisfy { $0.kind == .unanswered(.connectFailed) && !$0.mayHaveBeenProcessed })
        let status = try await rig.status()
        #expect((1...100).contains(status.connectionsFailed))
        let message = try #require(status.lastError)
        #expect(message.contains("refused") && message.contains(":\(port)"))
        await rig.end()
    }

    @Test func `a host name without an address is named`() async throws {
        let rig = try Rig {
            $0.host = "push.example.invalid"
            $0.connectPatience = .milliseconds(100)
            $0.connectTimeout = .seconds(20)
        }
        try rig.send(3)
        let seen = await rig.collector.wait(for: 3)
        #expect(seen.allSatisfy { $0.kind == .unanswered(.nameNotResolved) && !$0.mayHaveBeenProcessed })
        #expect(try await rig.status().lastError?.contains("push.example.invalid") == true)
        await rig.end()
    }

    @Test func `an untrusted certificate fails the connection and no request is sent`() async throws {
        let rig = try Rig(trusting: false) { $0.connectPatience = .milliseconds(100) }
        try rig.send(10)
        let seen = await rig.collector.wait(for: 10)
        #expect(seen.allSatisfy { $0.kind == .unanswered(.tlsFailed) && !$0.mayHaveBeenProcessed })
        let message = try #require(try await rig.status().lastError)
        #expect(message.contains("certificate of localhost was refused") && message.contains("PEAL_CA_FILE"))
        #expect(rig.simulator.ledger.totals.requests == 0)
        await rig.end()
    }

    @Test func `a deadline that passes while requests wait is kept without a connection`() async throws {
        let rig = try Rig(script: scripted { $0.ignoresNewConnections = [.apnsProduction] })
        try rig.send(500, deadline: WallClock.now() + .milliseconds(150))
        let seen = await rig.collector.wait(for: 500)
        #expect(seen.isEachOnce(500))
        #expect(seen.allSatisfy { $0.kind == .expired && !$0.mayHaveBeenProcessed })
        #expect(rig.simulator.ledger.totals.requests == 0)
        await rig.end()
    }

    @Test func `promise 5: nothing is framed after its deadline, in mid-flood either`() async throws {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 10
        options.apns.streamsAfterAcceptance = 2
        let rig = try Rig(options: options) { $0.maximumConnections = 1 }
        let deadline = WallClock.now() + .milliseconds(300)
        try rig.send(2000, deadline: deadline)
        let seen = await rig.collector.wait(for: 2000)
        #expect(seen.isEachOnce(2000))
        let answered = seen.count { $0.status == 200 }
        #expect(answered > 0 && seen.with(.expired).count == 2000 - answered)
        #expect(rig.simulator.ledger.totals.requests == answered)
        await rig.end()
    }

    @Test func `cancel takes back what is not framed and lets the rest finish`() async throws {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 300
        options.apns.streamsAfterAcceptance = 3
        let rig = try Rig(options: options) { $0.maximumConnections = 1 }
        try rig.send(1000, tag: 1)
        try rig.send((5000..<5002).map(Rig.token), tag: 2)
        try await waitUntil(rig) { $0.streamsInFlight == 3 }
        rig.client.cancel(tag: 1)
        let seen = await rig.collector.wait(for: 1002)
        let first = seen.filter { $0.tag == 1 }
        #expect(first.isEachOnce(1000))
        let answered = first.count { $0.status == 200 }
        #expect(answered >= 4 && first.with(.cancelled).count == 1000 - answered)
        #expect(seen.filter { $0.tag == 2 }.allSatisfy { $0.status == 200 })
        #expect(rig.simulator.ledger.totals.requests == answered + 2)
        await rig.end()
    }

    @Test func `stop lets answers come that are out and gives back what waits`() async throws {
        var options = SimulatorOptions()
        options.latencyMilliseconds = 300
        options.apns.streamsAfterAcceptance = 20
        let rig = try Rig(options: options) { $0.maximumConnections = 1 }
        try rig.send(500)
        try await waitUntil(rig) { $0.streamsInFlight == 20 }
        await rig.client.stop(within: .seconds(10))
        let seen = rig.collector.seen
        #expect(seen.isEachOnce(500))
        let closed = seen.with(.unanswered(.poolClosed))
        #expect(!closed.isEmpty && closed.allSatisfy { !$0.mayHaveBeenProcessed })
        #expect(seen.count { $0.status == 200 } == 500 - closed.count)
        #expect(rig.simulator.ledger.totals.requests == 500 - closed.count)
        await rig.end()
    }

    @Test func `stop without time leaves in doubt what is out`() async throws {
        let rig = try Rig(script: scripted { $0.rules = [Rule(.silence, skip: 1)] }) { $0.maximumConnections = 1 }
        try rig.send(50)
        #expect(await rig.simulator.ledger.waitUntil(50))
        await rig.client.stop(within: .zero)
        let seen = rig.collector.seen
        #expect(seen.isEachOnce(50))
        let closed = seen.with(.unanswered(.poolClosed))
        #expect(closed.count == 49 && closed.allSatisfy { $0.mayHaveBeenProcessed })
        await rig.end()
    }

    @Test func `a closed pool refuses requests and leaves the others alone`() async throws {
        let rig = try Rig()
        try rig.send(10)
        _ = await rig.collector.wait(for: 10)
        rig.client.closePool(rig.pool, within: .seconds(1))
        try rig.send(10, tag: 2)
        let seen = await rig.collector.wait(for: 20).filter { $0.tag == 2 }
        #expect(seen.allSatisfy { $0.kind == .unanswered(.poolClosed) && !$0.mayHaveBeenProcessed })
        await rig.end()
        try rig.send(10, tag: 3)
        #expect(rig.collector.seen.filter { $0.tag == 3 }.with(.unanswered(.poolClosed)).count == 10)
    }

    @Test func `renewed connections take over while the old ones finish`() async throws {
        let rig = try Rig(script: scripted { $0.latencyMilliseconds = 100 }) { $0.maximumConnections = 1 }
        try rig.send(2000)
        try await waitUntil(rig) { $0.streamsInFlight == 1000 }
        rig.client.renewConnections(of: rig.pool)
        let seen = await rig.collector.wait(for: 2000)
        #expect(seen.isEachOnce(2000) && seen.allSatisfy { $0.status == 200 })
        #expect(rig.simulator.ledger.acceptedHistogram() == [1: 2000])
        #expect(try await rig.status().connectionsOpened == 2)
        await rig.end()
    }

    @Test func `a minimum of connections is kept without work, and comes back when cut`() async throws {
        let rig = try Rig { $0.minimumConnections = 2 }
        try await waitUntil(rig) { $0.activeConnections == 2 }
        rig.simulator.control.perform(.drop(.reset))
        try await waitUntil(rig) { $0.connectionsOpened >= 4 && $0.activeConnections == 2 }
        await rig.end()
    }

    @Test func `without work nobody reconnects`() async throws {
        let rig = try Rig()
        try rig.send(1)
        _ = await rig.collector.wait(for: 1)
        rig.simulator.control.perform(.goAway(GoAway(lastStream: .newest)))
        try await waitUntil(rig) { $0.activeConnections == 0 }
        let status = try await rig.status()
        #expect(status.connectingConnections == 0 && status.connectionsOpened == 1)
        await rig.end()
    }

    @Test func `an old connection is replaced`() async throws {
        let rig = try Rig(script: scripted { $0.latencyMilliseconds = 5 }) {
            $0.maximumConnections = 1
            $0.maximumAge = .milliseconds(200)
            $0.maximumStreams = 10
        }
        try rig.send(2000)
        let seen = await rig.collector.wait(for: 2000)
        #expect(seen.isEachOnce(2000) && seen.allSatisfy { $0.status == 200 })
        #expect(try await rig.status().connectionsOpened >= 2)
        await rig.end()
    }
}
