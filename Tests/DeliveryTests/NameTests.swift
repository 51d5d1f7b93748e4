import Delivery
import HTTP2
import ProviderSimulator
import PushCore
import Synchronization
import Telemetry
import TestSupport
import Testing

/// A name service that has no answer for a while.
private final class Names: Sendable {
    private struct State {
        var isUp = false
        var questions = 0
    }

    private let state = Mutex(State())

    var lookUp: NameLookUp {
        NameLookUp { host in
            self.state.withLock { state in
                state.questions += 1
                return state.isUp ? host : nil
            }
        }
    }

    var questions: Int { state.withLock { $0.questions } }

    func comeUp() { state.withLock { $0.isUp = true } }
}

@Suite struct NameTests {
    @Test func `case 83: a name without an address makes all messages wait for one connection, and loses none`()
        async throws
    {
        try await DeliveryRig.with { rig in
            let app = try await rig.addApp("shop")
            try await rig.addAPNs(app)
            let devices = try await rig.addDevices(app, tokens: DeliveryRig.tokens(500))
            let patient = try await rig.addJob("shop", devices: devices) { $0.batchSize = 50 }
            let urgent = try await rig.addJob("shop", devices: Array(devices.prefix(20))) { $0.expiresIn = 2 }
            let names = Names()
            let log = try LogCapture()
            let logger = Logger(level: .warning, output: log.output)
            try await rig.deliver {
                $0.names = names.lookUp
                $0.logger = logger
            } _: { _ in
                // What is worth sending for two seconds has expired by then, and nothing was given up.
                let isTried = try await rig.wait {
                    let left = try await rig.remaining(urgent)
                    return left == 0 && names.questions >= 2
                }
                #expect(isTried)
                #expect(try await rig.remaining(patient) == 500)
                #expect(names.questions < 20, "one connection is tried, not one for each message")
                names.comeUp()
                let isDone = try await rig.waitUntilDone(patient)
                #expect(isDone)
            }
            #expect(try await rig.outcomes(urgent) == ["expired": 20])
            #expect(try await rig.outcomes(patient) == ["accepted": 500])
            #expect(try await rig.number("SELECT max(attempt) FROM peal.result") == 1)
            #expect(try await rig.number("SELECT count(*) FROM peal.device WHERE disabled_at IS NOT NULL") == 0)
            #expect(rig.simulator.ledger.acceptedHistogram() == [1: 500])
            #expect(log.text.split(separator: "\n").filter { $0.contains("cannot be reached") }.count == 1)
            #expect(try await rig.accountingFaults() == 0)
        }
    }
}
