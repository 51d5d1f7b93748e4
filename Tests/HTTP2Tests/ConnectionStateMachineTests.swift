import Testing

@testable import HTTP2

@Suite struct ConnectionStateMachineTests {
    private func makeActive(streams: Int = 0) -> ConnectionStateMachine {
        var machine = ConnectionStateMachine()
        _ = machine.tcpConnected()
        _ = machine.tlsFinished()
        _ = machine.settingsReceived()
        for _ in 0..<streams { machine.streamOpened() }
        return machine
    }

    @Test func `a connection becomes active by TCP, TLS and the peer's SETTINGS, in that order`() {
        var machine = ConnectionStateMachine()
        #expect(machine.isConnecting && machine.isInTCP && !machine.canOpenStreams)
        #expect(machine.tcpConnected() == .startHandshake)
        #expect(machine.isInTLS)
        #expect(machine.tlsFinished() == .startSession)
        #expect(machine.hasSession && !machine.canOpenStreams)
        #expect(machine.settingsReceived() == .announce)
        #expect(machine.canOpenStreams)
        #expect(machine.settingsReceived() == .none)
    }

    @Test func `a peer that says nothing is closed in each phase of the way`() {
        var machine = ConnectionStateMachine()
        #expect(machine.phaseDeadlinePassed() == .close(.attemptFailed(.connectFailed)))
        machine = ConnectionStateMachine()
        _ = machine.tcpConnected()
        #expect(machine.phaseDeadlinePassed() == .close(.attemptFailed(.tlsFailed)))
        machine = ConnectionStateMachine()
        _ = machine.tcpConnected()
        _ = machine.tlsFinished()
        #expect(machine.phaseDeadlinePassed() == .close(.attemptFailed(.tlsFailed)))
        #expect(machine.isClosed)
    }

    @Test func `an active connection has no phase that could end`() {
        var machine = makeActive()
        #expect(machine.phaseDeadlinePassed() == .none)
        #expect(machine.isActive)
    }

    @Test func `a GOAWAY in place of SETTINGS is a failed attempt`() {
        var machine = ConnectionStateMachine()
        _ = machine.tcpConnected()
        _ = machine.tlsFinished()
        #expect(machine.goAwayReceived() == .close(.attemptFailed(.connectFailed)))
    }

    @Test func `after a GOAWAY no stream is opened, and the last answer closes`() {
        var machine = makeActive(streams: 2)
        #expect(machine.goAwayReceived() == .stopOpening)
        #expect(machine.isDraining && !machine.canOpenStreams)
        #expect(machine.streamClosed() == .none)
        #expect(machine.goAwayReceived() == .none)
        #expect(machine.streamClosed() == .close(.retired))
        #expect(machine.isClosed)
    }

    @Test func `a GOAWAY without open streams closes at once`() {
        var machine = makeActive()
        #expect(machine.goAwayReceived() == .close(.retired))
    }

    @Test func `draining has a limit`() {
        var machine = makeActive(streams: 1)
        _ = machine.goAwayReceived()
        #expect(machine.phaseDeadlinePassed() == .close(.drainLimitPassed))
    }

    @Test func `SETTINGS while draining do not bring a connection back`() {
        var machine = makeActive(streams: 1)
        _ = machine.goAwayReceived()
        #expect(machine.settingsReceived() == .none)
        #expect(!machine.canOpenStreams)
    }

    @Test func `retiring lets answers come and cuts attempts short`() {
        var active = makeActive(streams: 1)
        #expect(active.retire() == .stopOpening)
        #expect(active.retire() == .none)
        #expect(active.streamClosed() == .close(.retired))
        var connecting = ConnectionStateMachine()
        #expect(connecting.retire() == .close(.retired))
    }

    @Test func `a failure before SETTINGS is an attempt, afterwards a loss`() {
        var machine = ConnectionStateMachine()
        #expect(machine.failed(.nameNotResolved) == .close(.attemptFailed(.nameNotResolved)))
        machine = makeActive(streams: 3)
        #expect(machine.failed(.connectionLost) == .close(.lost))
        #expect(machine.failed(.connectionLost) == .none)
        #expect(machine.openStreams == 3)
    }

    @Test func `events that come too late change nothing`() {
        var machine = makeActive()
        _ = machine.retire()
        #expect(machine.tcpConnected() == .none)
        #expect(machine.tlsFinished() == .none)
        #expect(machine.settingsReceived() == .none)
        #expect(machine.goAwayReceived() == .none)
        #expect(machine.phaseDeadlinePassed() == .none)
        #expect(machine.isClosed)
    }

    @Test func `opening a stream on a draining connection stops the program`() async {
        await #expect(processExitsWith: .failure) {
            var machine = ConnectionStateMachine()
            machine.streamOpened()
        }
    }
}
