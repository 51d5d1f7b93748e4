@testable import Delivery
import Testing

@Suite struct CredentialGateTests {
    private let first = CredentialGate.Probe(batch: 1, request: 7)
    private let second = CredentialGate.Probe(batch: 2, request: 9)

    @Test func `one refusal is probed, and an accepted probe opens the gate`() {
        var gate = CredentialGate()
        let refused = [gate.refused(first, reason: "R"), gate.refused(second, reason: "R")]
        #expect(refused == [.probe, .none])
        #expect(!gate.isOpen && !gate.wantsProbe)
        gate.renewed()
        #expect(gate.wantsProbe)
        #expect(gate.suspect == first, "it may be the only one that is refused, and proves nothing")
        gate.probing(with: second)
        #expect(gate.probe == second)
        let other = gate.answered(first)
        #expect(other == .none)
        let action = gate.answered(second)
        #expect(action == .open)
        #expect(gate.isOpen)
    }

    @Test func `a refused probe closes the gate for good`() {
        var gate = CredentialGate()
        _ = gate.refused(first, reason: "R")
        gate.renewed()
        gate.probing(with: first)
        let action = gate.refused(first, reason: "S")
        #expect(action == .close(reason: "S"))
        #expect(gate.closedReason == "S")
        let later = gate.refused(second, reason: "R")
        #expect(later == .none)
    }

    @Test func `a gate that is held refuses nothing and lets nobody through`() {
        var gate = CredentialGate()
        _ = gate.refused(first, reason: "R")
        gate.hold(until: .now + .seconds(1))
        #expect(!gate.isOpen && gate.closedReason == nil && gate.heldUntil != nil)
        let later = gate.refused(second, reason: "R")
        #expect(later == .none)
    }

    @Test func `a probe without an answer makes room for another`() {
        var gate = CredentialGate()
        _ = gate.refused(first, reason: "R")
        gate.renewed()
        gate.probing(with: first)
        gate.probeLost(second)
        #expect(!gate.wantsProbe)
        gate.probeLost(first)
        #expect(gate.wantsProbe)
    }
}
