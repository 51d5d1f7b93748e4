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
        "{\"actions\": [{\"do\": \"silence\"}]}",
    ])
    func `a file with a fault stops the start and is named`(text: String) throws {
        let path = try TemporaryFile.path("control.json")
        defer { TemporaryFile.remove(path) }
        try TemporaryFile.write(text, to: path)
        let error = #expect(throws: SimulatorError.self) { _ = try Fixture { $0.controlFile = path } }
        #expect(error?.code == .control)
        #expect(error?.description.contains(path) == true)
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
}
