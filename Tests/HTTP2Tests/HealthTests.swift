@testable import HTTP2
import ProviderSimulator
import PushCore
import Testing

@Suite(.serialized, .timeLimit(.minutes(1)))
struct HealthTests {
    // MARK: The parts

    @Test func `a connection is sick when more than half goes wrong, and not before it had a chance`() {
        var health = ConnectionHealth()
        for _ in 0..<31 { health.note(isBad: true) }
        #expect(!health.isSick)
        health.note(isBad: true)
        #expect(health.isSick)
        for _ in 0..<20 { health.note(isBad: false) }
        #expect(!health.isSick)
        for _ in 0..<1000 {
            health.note(isBad: true)
            health.note(isBad: false)
            health.note(isBad: false)
        }
        #expect(!health.isSick)
    }

    @Test func `a connection is well when half goes well, and not before it had a chance`() {
        var health = ConnectionHealth()
        for _ in 0..<31 { health.note(isBad: false) }
        #expect(!health.isWell && !health.isSick)
        health.note(isBad: false)
        #expect(health.isWell && !health.isSick)
        for _ in 0..<32 { health.note(isBad: true) }
        #expect(!health.isWell && health.isSick)
    }

    /// What the gauge says after each of so many answers.
    private func verdicts(_ gauge: inout LatencyGauge, milliseconds: Int64, times: Int) -> [Bool] {
        var verdicts: [Bool] = []
        for _ in 0..<times { verdicts.append(gauge.note(nanoseconds: milliseconds * 1_000_000)) }
        return verdicts
    }

    @Test func `a peer is slow by its own measure`() {
        var gauge = LatencyGauge(slack: .milliseconds(100))
        let steady = verdicts(&gauge, milliseconds: 300, times: 100)
        // Four times 300 ms and 100 ms more is 1.3 s.
        let slower = verdicts(&gauge, milliseconds: 1200, times: 100)
        #expect(!steady.contains(true) && !slower.contains(true))
        let slow = verdicts(&gauge, milliseconds: 2000, times: 50)
        #expect(slow.first == false && slow.last == true)
        let again = verdicts(&gauge, milliseconds: 300, times: 50)
        #expect(again.last == false)
    }

    @Test func `one slow answer says nothing, and lasting slowness becomes the measure`() {
        var gauge = LatencyGauge(slack: .milliseconds(10))
        let before = verdicts(&gauge, milliseconds: 1, times: 50) + verdicts(&gauge, milliseconds: 200, times: 1)
        #expect(!before.contains(true))
        let lasting = verdicts(&gauge, milliseconds: 500, times: 2100)
        #expect(lasting.contains(true) && lasting.last == false)
        var never = LatencyGauge(slack: nil)
        let unlimited =
            verdicts(&never, milliseconds: 1, times: 10) + verdicts(&never, milliseconds: 60_000, times: 100)
        #expect(!unlimited.contains(true))
    }

    @Test func `slowness leaves some streams`() {
        var window = StreamWindow(initial: 1, maximum: 20)
        window.peerAnnounced(1000)
        window.answered(status: 200)
        for _ in 0..<10 {
            window.overloaded(atLeast: 8)
            for _ in 0..<20 { window.answered(status: 429) }
        }
        #expect(window.limit == 8)
        // It never gives back what a refusal took.
        for _ in 0..<20 { window.answered(status: 429) }
        window.overloaded()
        #expect(window.limit == 4)
        for _ in 0..<20 { window.answered(status: 429) }
        window.overloaded(atLeast: 8)
        #expect(window.limit == 4)
    }

    // MARK: Against the simulator

    /// Two connections to a simulator with one rule, both of them ready.
    private func makePair(_ rule: Rule, latencyMilliseconds: Int = 0) async throws -> Rig {
        let script = scripted { script in
            script.latencyMilliseconds = latencyMilliseconds
            script.rules = [rule]
        }
        let rig = try Rig(script: script) {
            $0.minimumConnections = 2
            $0.maximumConnections = 2
            $0.maximumStreams = 10
        }
        try await waitUntil(rig) { $0.activeConnections == 2 }
        return rig
    }

    @Test(arguments: [Behaviour.reject(reason: "InternalServerError"), .resetStream(code: 2)])
    func `a connection that goes wrong while others do not is let go`(behaviour: Behaviour) async throws {
        let rig = try await makePair(Rule(behaviour, connection: 1, skip: 5), latencyMilliseconds: 2)
        try rig.send(3000)
        let seen = await rig.collector.wait(for: 3000)
        #expect(seen.isEachOnce(3000))
        // Those that were out when the verdict fell came back bad too; the rest is well.
        let bad = seen.count { $0.status != 200 }
        #expect((27...70).contains(bad))
        #expect(try await rig.status().connectionsOpened == 3)
        let first = try #require(rig.simulator.ledger.connections().first)
        #expect(first.requests < 80 && !first.isOpen)
        await rig.end()
    }

    @Test func `when all connections go wrong they are kept: it is the peer`() async throws {
        let rig = try await makePair(Rule(.reject(reason: "InternalServerError"), skip: 20))
        try rig.send(2000)
        _ = await rig.collector.wait(for: 2000)
        #expect(try await rig.status().connectionsOpened == 2)
        await rig.end()
    }

    @Test func `a connection that refuses whatever it is sent is let go while another does well`() async throws {
        let rig = try await makePair(
            Rule(.reject(reason: "InvalidProviderToken"), connection: 1),
            latencyMilliseconds: 2
        )
        try rig.send(3000)
        let seen = await rig.collector.wait(for: 3000)
        #expect(seen.isEachOnce(3000))
        // It carries one request at a time until its first good answer, and 32 are its chance.
        #expect((32...40).contains(seen.count { $0.status == 403 }))
        #expect(seen.count { $0.status == 200 || $0.status == 403 } == 3000)
        let first = try #require(rig.simulator.ledger.connections().first)
        #expect(!first.isOpen)
        await rig.end()
    }

    @Test func `refusals of a peer that has accepted before are not the fault of a connection`() async throws {
        let rule = Rule(.reject(reason: "InvalidProviderToken"), connection: 1, skip: 1)
        let rig = try await makePair(rule, latencyMilliseconds: 2)
        try rig.send(1000)
        let seen = await rig.collector.wait(for: 1000)
        #expect(seen.isEachOnce(1000) && seen.count { $0.status == 403 } > 100)
        #expect(try await rig.status().connectionsOpened == 2)
        await rig.end()
    }

    @Test func `a peer that becomes slow gets fewer streams, and more when it is quick again`() async throws {
        let rig = try Rig {
            $0.maximumConnections = 1
            $0.maximumStreams = 64
            $0.slowAnswer = .milliseconds(400)
        }
        try rig.send(100)
        _ = await rig.collector.wait(for: 100)
        #expect(try await rig.status().streamsAllowed == 64)
        rig.simulator.control.set { $0.latencyMilliseconds = 1500 }
        try rig.send((100..<250).map(Rig.token), tag: 2)
        try await waitUntil(rig) { $0.streamsAllowed <= 32 }
        rig.simulator.control.set { $0.latencyMilliseconds = 0 }
        // It grows with good answers only, and an answer that this machine held up sets it back: so requests go on.
        var sent = 250
        repeat {
            try rig.send((sent..<sent + 1000).map(Rig.token), tag: 3)
            sent += 1000
            let seen = await rig.collector.wait(for: sent)
            #expect(seen.allSatisfy { $0.status == 200 })
        } while try await rig.status().streamsAllowed < 64
        await rig.end()
    }

    // MARK: Duties of FCM

    @Test func `FCM never sees more than 100 streams nor a PING without work`() async throws {
        var options = SimulatorOptions.quick()
        options.ledger = .tokens
        options.fcm.maximumIdlePings = 0
        let rig = try Rig(.fcm, options: options) {
            $0.initialStreams = 1000
            $0.pingAfterQuiet = .milliseconds(1000)
            $0.idleTimeout = .milliseconds(1500)
        }
        try rig.send(1000)
        let seen = await rig.collector.wait(for: 1000)
        #expect(seen.isEachOnce(1000) && seen.allSatisfy { $0.status == 200 })
        try await waitUntil(rig) { $0.activeConnections == 0 }
        let status = try await rig.status()
        #expect(status.goAways == 0)
        let connections = rig.simulator.ledger.connections()
        #expect(connections.allSatisfy { $0.peakOpenStreams <= 100 })
        await rig.end()
    }

    // MARK: Broken handshakes

    @Test(arguments: HandshakeFault.allCases)
    func `a broken handshake is told of and nothing is sent`(fault: HandshakeFault) async throws {
        let rig = try Rig(script: scripted { $0.handshakeFaults = [.apnsProduction: fault] }) {
            $0.connectPatience = .milliseconds(200)
        }
        try rig.send(5)
        let seen = await rig.collector.wait(for: 5)
        #expect(seen.isEachOnce(5) && seen.allSatisfy { !$0.mayHaveBeenProcessed })
        #expect(seen.allSatisfy { $0.kind == .unanswered(.tlsFailed) || $0.kind == .unanswered(.connectionLost) })
        let message = try #require(try await rig.status().lastError)
        let word =
            switch fault {
            case .refusedALPN: "application protocol"
            case .noALPN: "ALPN"
            case .expiredCertificate: "expired"
            case .otherHost: "mismatch"
            case .clientCertificate: "certificate required"
            }
        #expect(message.contains(word), "\(message)")
        rig.simulator.control.reset()
        try rig.send((5..<10).map(Rig.token), tag: 2)
        #expect(await rig.collector.wait(for: 10).filter { $0.tag == 2 }.allSatisfy { $0.status == 200 })
        await rig.end()
    }

    @Test func `the age at which connections are replaced is spread by a tenth`() async throws {
        let rig = try Rig {
            $0.minimumConnections = 4
            $0.maximumConnections = 4
            $0.maximumAge = .milliseconds(400)
        }
        try await waitUntil(rig) { $0.connectionsOpened >= 8 }
        await rig.end()
        let ages = (0..<1000).map { _ in Connection.lifetime(.seconds(3600)) }
        #expect(ages.allSatisfy { (Duration.seconds(3240)...Duration.seconds(3960)).contains($0) })
        #expect(ages.min() ?? .zero < .seconds(3400) && ages.max() ?? .zero > .seconds(3800))
    }
}
