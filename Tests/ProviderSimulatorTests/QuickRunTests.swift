import Glibc
import ProviderSimulator
import Testing

@Suite struct QuickRunTests {
    @Test func `a quick run counts and answers without looking`() throws {
        var options = SimulatorOptions.quick()
        options.roles = [.apnsProduction, .fcm]
        let simulator = try ProviderSimulator.start(options)
        let apns = try RawClient(port: simulator.endpoint(.apnsProduction).port, caFile: simulator.caFile)
        #expect(apns.announcedStreams == [1000])
        let answer = try apns.answer("POST", "/3/device/deadbeef", body: "x")
        #expect(answer.status == 200)
        #expect(answer.headers["apns-id"]?.utf8.count == 36)
        let fcm = try RawClient(port: simulator.endpoint(.fcm).port, caFile: simulator.caFile)
        let named = try fcm.answer("POST", "/v1/projects/p/messages:send", body: "x")
        #expect(named.text.contains("\"name\":\"projects/peal-simulated/messages/"))
        simulator.stop()
        #expect(simulator.ledger.totals.accepted == 2)
        #expect(simulator.ledger.totals.payloadBytes == 2)
    }

    @Test func `a quick run gives FCM access tokens, so that a campaign can be sent`() throws {
        let fixture = try Fixture {
            let clock = $0.clock
            $0 = SimulatorOptions.quick()
            $0.clock = clock
        }
        let token = try fixture.accessToken()
        #expect(token.hasPrefix("ya29."))
        let client = try fixture.connect(.fcm)
        var names: Set<String> = []
        for _ in 0..<3 {
            let answer = try client.answer("POST", fixture.sendPath, headers: fixture.bearer(token), body: "{}")
            #expect(answer.status == 200 && answer.isWhole)
            #expect(answer.headers["content-type"] == "application/json; charset=UTF-8")
            #expect(answer.text.hasPrefix("{\"name\":\"projects/peal-simulated/messages/0:"))
            names.insert(answer.text)
        }
        #expect(names.count == 3)
    }

    @Test func `a run says what it does not check, and what it cost`() throws {
        let quick = try ProviderSimulator.start(.quick())
        let client = try RawClient(port: quick.endpoint(.apnsProduction).port, caFile: quick.caFile)
        _ = try client.answer("POST", "/3/device/ab", body: "x")
        quick.stop()
        let summary = quick.summary
        #expect(summary.mode == "quick hand-framed")
        #expect(summary.notChecked.contains("MAX_CONCURRENT_STREAMS"))
        #expect(summary.cpuSeconds > 0 && summary.totals.accepted == 1)
        #expect(summary.json.contains("\"cpu_seconds\":\(summary.cpuSeconds)}"))
        #expect(summary.json.contains("\"requests_by_role\":{\"apns-production\":1,"))
        #expect(quick.endpointsJSON.contains("\"not_checked\":[\"method, path and headers\""))
        let checked = try Fixture().simulator
        #expect(checked.summary.mode == "checked" && checked.summary.notChecked.isEmpty)
        #expect(checked.endpointsJSON.contains("\"not_checked\":[]"))
    }

    @Test func `without TLS the frames go straight over TCP`() throws {
        var options = SimulatorOptions.quick()
        options.isPlainText = true
        let simulator = try ProviderSimulator.start(options)
        let endpoint = simulator.endpoint(.apnsProduction)
        #expect(endpoint.url == "http://localhost:\(endpoint.port)")
        let socket = try RawClient.connect(port: endpoint.port)
        defer { close(socket) }
        let request: [UInt8] =
            Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]
            + [0, 0, 2, 1, 5, 0, 0, 0, 1, 0x83, 0x87]
        #expect(unsafe send(socket, request, request.count, 0) == request.count)
        var received: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1024)
        // SETTINGS, window, acknowledgement, and the answer with its id.
        while received.count < 33 + 13 + 9 + 56 {
            var entry = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
            try #require(unsafe poll(&entry, 1, 5000) == 1)
            let count = unsafe recv(socket, &chunk, chunk.count, 0)
            try #require(count > 0)
            received += chunk[..<count]
        }
        #expect(received[3] == 4 && Array(received.suffix(56))[8] == 1)
        simulator.stop()
        #expect(simulator.ledger.totals.accepted == 1)
    }

    @Test(arguments: [true, false])
    func `a round trip holds back answers and nothing else`(isQuick: Bool) throws {
        var options = isQuick ? SimulatorOptions.quick() : SimulatorOptions()
        options.roundTripMilliseconds = 60_000
        let simulator = try ProviderSimulator.start(options)
        let client = try RawClient(port: simulator.endpoint(.apnsProduction).port, caFile: simulator.caFile)
        let stream = try client.send("POST", "/3/device/ab", body: "x")
        try client.ping()
        try client.pump { client.pingAcks == 1 }
        #expect(client.answers[stream]?.closeCode == nil)
    }

    @Test(arguments: [true, false])
    func `answers come in order when the round trip is over`(isQuick: Bool) throws {
        let fixture = try Fixture {
            if isQuick { $0 = SimulatorOptions.quick() }
            $0.apns.streamsAtStart = 1000
            $0.roundTripMilliseconds = 20
        }
        let client = try fixture.connect()
        let headers = try fixture.alertHeaders()
        var streams: [Int32] = []
        for _ in 0..<200 {
            streams.append(
                try client.send("POST", Fixture.path(Fixture.token()), headers: headers, body: Fixture.alert)
            )
        }
        for stream in streams { _ = try client.wait(for: stream) }
        #expect(client.answers.values.allSatisfy { $0.status == 200 && $0.isWhole })
    }
}
