import ProviderSimulator
import Testing

@Suite struct ControlFileTests {
    private func status(_ fixture: Fixture, _ word: String, token: String) throws -> Int {
        try fixture.connect().answer(
            "POST",
            Fixture.path(Fixture.token(word)),
            headers: try fixture.alertHeaders(token: token),
            body: Fixture.alert
        ).status
    }

    @Test func `a file scripts the answers and is read again when it changes`() async throws {
        let path = try TemporaryFile.path("control.json")
        defer { TemporaryFile.remove(path) }
        try TemporaryFile.write(
            """
            {"rules": [{"role": "apns-production", "token": "ab", "times": 1, "do": {"reason": "Shutdown"}},
                       {"token": "ac", "do": {"reason": "Unregistered", "timestamp": "now"}}]}
            """,
            to: path
        )
        let fixture = try Fixture { $0.controlFile = path }
        let token = try fixture.providerToken()
        #expect(try status(fixture, "ab", token: token) == 503)
        #expect(try status(fixture, "ab", token: token) == 200)
        #expect(try status(fixture, "ac", token: token) == 410)
        let before = fixture.simulator.control.script
        try TemporaryFile.write("{\"rules\": [{\"do\": {\"reason\": \"TooManyRequests\"}}]}", to: path)
        let control = fixture.simulator.control
        let changed = await fixture.simulator.ledger.wait { _ in control.script != before }
        #expect(changed)
        #expect(try status(fixture, "ab", token: token) == 429)
    }

    @Test(arguments: [
        "[]", "{", "{\"ruels\": []}", "{\"rules\": [{}]}", "{\"rules\": [{\"do\": \"explode\"}]}",
        "{\"rules\": [{\"do\": \"accept\", \"tokn\": \"a\"}]}",
        "{\"rules\": [{\"do\": {\"go_away\": {\"then\": \"x\"}}}]}",
        "{\"rate_limits\": {\"gcm\": {\"requests\": 1}}}", "{\"latency_ms\": -1}",
        "{\"actions\": [{\"do\": \"silence\"}]}", "{\"at_start\": {\"apns_strems\": 1}}",
        "{\"at_start\": {\"refuse_unknown_devices\": 1}}", "{\"clock_offset_s\": \"1\"}",
        "{\"devices\": [{\"token\": \"ab\"}]}",
        "{\"devices\": [{\"token\": \"ab\", \"role\": \"fcm\", \"do\": \"drop\"}]}",
        "{\"devices\": [{\"token\": \"ab\", \"role\": \"fcm\", \"onlin\": true}]}",
    ])
    func `a file with a fault stops the start and is named`(text: String) throws {
        let path = try TemporaryFile.path("control.json")
        defer { TemporaryFile.remove(path) }
        try TemporaryFile.write(text, to: path)
        let error = #expect(throws: SimulatorError.self) { _ = try Fixture { $0.controlFile = path } }
        #expect(error?.code == .control)
        #expect(error?.description.contains(path) == true)
    }

    @Test(arguments: [
        ("{\"rules\": [}", 11), ("{\"rules\": []} x", 14), ("{\"latency_ms\": 1,}", 17), ("", 0), (#"{"a": "\x"}"#, 8),
        ("{\"a\": \"\u{1}\"}", 7),
    ])
    func `text that is no JSON is refused with its place`(text: String, place: Int) throws {
        let path = try TemporaryFile.path("control.json")
        defer { TemporaryFile.remove(path) }
        try TemporaryFile.write(text, to: path)
        let error = #expect(throws: SimulatorError.self) { _ = try Fixture { $0.controlFile = path } }
        #expect(error?.description.contains("it is not JSON (at byte \(place))") == true, "\(error?.description ?? "")")
    }

    @Test func `every form that is documented is understood`() throws {
        let path = try TemporaryFile.path("control.json")
        defer { TemporaryFile.remove(path) }
        try TemporaryFile.write(
            """
            {"latency_ms": 20, "reset_new_connections": ["fcm"], "ignore_new_connections": ["oauth"],
             "handshake_faults": {"fcm": "expired-certificate"},
             "oauth": {"error": "invalid_grant", "description": "no"},
             "rate_limits": {"fcm": {"requests": 60, "window_ms": 5000, "retry_after": 3, "drop_after": 300}},
             "fcm_quota": {"project_per_minute": 9, "device_per_minute": 8, "device_per_hour": 7},
             "actions": [{"role": "fcm", "do": {"settings": 5}}],
             "rules": [
              {"do": "accept", "delay_ms": 5, "per": "token", "skip": 1, "every": 2, "until_bearer_changes": true},
              {"do": {"fcm": "quota"}, "retry_after": {"date_in_seconds": 60}, "topic": "t", "connection": 3},
              {"do": {"body": "html", "status": 502}}, {"do": {"reset_stream": 2}}, {"do": {"answer_then_reset": 8}},
              {"do": {"go_away": {"last": "graceful", "code": 0, "debug": "x", "then": "keep-open", "grace_ms": 9}}},
              {"do": {"go_away": {"last": 2}}}, {"do": {"settings": 1}}, {"do": {"initial_window": 0}},
              {"do": "silence"}, {"do": "refuse"},
              {"do": "drop"}, {"do": "close"}, {"do": "stop_reading"}, {"do": "stop_answering"}]}
            """,
            to: path
        )
        let script = try Fixture { $0.controlFile = path }.simulator.control.script
        #expect(script.latencyMilliseconds == 20)
        #expect(script.resetsNewConnections == [.fcm])
        #expect(script.ignoresNewConnections == [.oauth])
        #expect(script.handshakeFaults == [.fcm: .expiredCertificate])
        #expect(script.oauth == .error("invalid_grant", description: "no"))
        let limit = RateLimit(requests: 60, windowMilliseconds: 5000, retryAfter: .seconds(3), dropConnectionAfter: 300)
        #expect(script.rateLimits == [.fcm: limit])
        #expect(script.fcmQuota == FCMQuota(projectPerMinute: 9, devicePerMinute: 8, devicePerHour: 7))
        let plan = GoAway(lastStream: .graceful, debugData: "x", then: .keepOpen, graceMilliseconds: 9)
        #expect(
            script.rules == [
                Rule(.accept, delayMilliseconds: 5, scope: .token, skip: 1, every: 2, untilBearerChanges: true),
                Rule(.fault(.quota), topic: "t", connection: 3, retryAfter: .dateInSeconds(60)),
                Rule(.body(status: 502, .html)), Rule(.resetStream(code: 2)), Rule(.answerThenReset(code: 8)),
                Rule(.goAway(plan)), Rule(.goAway(GoAway(lastStream: .belowNewest(2)))),
                Rule(.settings(maxConcurrentStreams: 1)), Rule(.initialWindow(0)), Rule(.silence), Rule(.refuseStream),
                Rule(.drop(.reset)), Rule(.drop(.close)), Rule(.stopReading), Rule(.stopAnswering),
            ]
        )
    }

    @Test func `a file sets what holds for the whole run`() throws {
        let path = try TemporaryFile.path("control.json")
        defer { TemporaryFile.remove(path) }
        try TemporaryFile.write(
            """
            {"at_start": {
              "apns_streams_at_start": 1000, "apns_lower_streams_after_rejection": true,
              "apns_go_away_after_bad_tokens": 1, "apns_expired_token_spoils_connection": true,
              "apns_token_updates_across_connections": true, "apns_token_update_interval_s": 60,
              "apns_maximum_token_age_s": 600, "fcm_maximum_idle_pings": 3, "fcm_idle_timeout_ms": 60000,
              "oauth_expires_in_s": 1, "refuse_unknown_devices": true},
             "devices": [{"role": "apns-production", "token": "\(Fixture.token("ac"))", "topic": "com.example.app"},
                         {"role": "apns-production", "token": "\(Fixture.token("ad"))", "topic": "com.example.other"},
                         {"role": "apns-production", "token": "\(Fixture.token("ae"))", "do": {"reason": "Unregistered"}}]}
            """,
            to: path
        )
        let fixture = try Fixture { $0.controlFile = path }
        #expect(try fixture.connect().announcedStreams == [1000])
        let token = try fixture.providerToken()
        #expect(try status(fixture, "ac", token: token) == 200)
        #expect(try status(fixture, "ad", token: token) == 400)
        #expect(try status(fixture, "ae", token: token) == 410)
        // Of a changed token the interval is watched over all connections.
        #expect(try status(fixture, "ac", token: fixture.providerToken(issuedAt: Fixture.now - 1)) == 429)
        #expect(try status(fixture, "ac", token: fixture.providerToken(issuedAt: Fixture.now - 601)) == 403)
        let client = try fixture.connect()
        let headers = try fixture.alertHeaders(token: token)
        let unknown = try client.answer("POST", Fixture.path(Fixture.token()), headers: headers, body: Fixture.alert)
        #expect(unknown.status == 400 && unknown.text.contains("BadDeviceToken"))
        try client.pump { !client.goAways.isEmpty }
        let granted = try fixture.requestToken(try fixture.connect(.oauth), try fixture.assertion())
        #expect(granted.text.contains("\"expires_in\":1,"))
    }

    @Test func `a file moves the clock, and takes a device on and off line`() async throws {
        let path = try TemporaryFile.path("control.json")
        defer { TemporaryFile.remove(path) }
        let device = Fixture.token("ac")
        func write(offset: Int, isOnline: Bool, more: String = "") throws {
            let text = """
                {"clock_offset_s": \(offset), \(more)
                 "devices": [{"role": "apns-production", "token": "\(device)", "online": \(isOnline)}]}
                """
            try TemporaryFile.write(text, to: path)
        }
        try write(offset: -10, isOnline: false)
        let fixture = try Fixture { $0.controlFile = path }
        let simulator = fixture.simulator
        #expect(simulator.clock.unixSeconds == Fixture.now - 10)
        #expect(try status(fixture, "ac", token: fixture.providerToken()) == 200)
        #expect(simulator.devices.stored(for: device, role: .apnsProduction) == [1])
        try write(offset: 100, isOnline: true)
        #expect(await simulator.ledger.wait { _ in simulator.clock.unixSeconds == Fixture.now + 100 })
        #expect(await simulator.ledger.wait { _ in simulator.devices.stored(for: device, role: .apnsProduction) == [] })
        #expect(simulator.devices.delivered(to: device, role: .apnsProduction).map(\.number) == [1])
    }
}
