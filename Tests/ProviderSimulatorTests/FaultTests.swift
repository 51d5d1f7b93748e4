import ProviderSimulator
import Testing

@Suite struct FaultTests {
    private let fixture: Fixture
    private let token: String

    init() throws {
        fixture = try Fixture()
        token = try fixture.providerToken()
    }

    private func send(_ client: RawClient, _ word: String = "ab") throws -> Int32 {
        try client.send(
            "POST",
            Fixture.path(Fixture.token(word)),
            headers: try fixture.alertHeaders(token: token),
            body: Fixture.alert
        )
    }

    private func answer(_ client: RawClient, _ word: String = "ab") throws -> RawClient.Answer {
        try client.wait(for: try send(client, word))
    }

    /// A connection that has had its first acceptance, so that many streams are allowed.
    private func warmConnection() throws -> RawClient {
        let client = try fixture.connect()
        #expect(try answer(client).status == 200)
        try client.pump { client.announcedStreams.last == 1000 }
        return client
    }

    @Test(arguments: APNsReasons.statuses.sorted { $0.key < $1.key }.map { [$0.key, String($0.value)] })
    func `a rule gives each reason with its status`(row: [String]) throws {
        fixture.simulator.control.set(rules: [Rule(.reject(reason: row[0]))])
        let refused = try answer(try fixture.connect())
        #expect(refused.status == Int(row[1]))
        #expect(refused.text == "{\"reason\":\"\(row[0])\"}")
    }

    @Test func `a 410 tells its time in milliseconds`() throws {
        let client = try fixture.connect()
        let milliseconds = Fixture.now * 1000
        #expect(try answer(client, "deadbeef").text == "{\"reason\":\"Unregistered\",\"timestamp\":\(milliseconds)}")
        let old = milliseconds - 31_536_000_000
        #expect(try answer(client, "dead01d0").text == "{\"reason\":\"Unregistered\",\"timestamp\":\(old)}")
        #expect(try answer(client, "dead0000").text == "{\"reason\":\"Unregistered\"}")
        #expect(try answer(client, "DEADBEEF").status == 410)
    }

    @Test func `silence never answers and the rest goes on`() throws {
        let client = try warmConnection()
        let silent = try send(client, "deafdeaf")
        #expect(try answer(client).status == 200)
        #expect(client.answers[silent]?.closeCode == nil)
        #expect(fixture.simulator.ledger.totals.unanswered == 1)
    }

    @Test func `streams are refused, reset, and reset after the answer`() throws {
        let client = try warmConnection()
        #expect(try answer(client, "b10cb10c") == RawClient.Answer(closeCode: 7))
        #expect(try answer(client, "fa11fa110008") == RawClient.Answer(closeCode: 8))
        let cut = try answer(client, "fadefade0002")
        #expect(cut.status == 200)
        #expect(cut.closeCode == 2)
        #expect(try answer(client).status == 200)
    }

    @Test func `a delayed answer comes after the others`() throws {
        let client = try warmConnection()
        let late = try send(client, "de1ade1a0200")
        #expect(try answer(client).status == 200)
        #expect(client.answers[late]?.closeCode == nil)
        #expect(try client.wait(for: late).status == 200)
    }

    @Test func `a newest GOAWAY still answers what is open, then the connection ends`() throws {
        let client = try warmConnection()
        let late = try send(client, "de1ade1a0100")
        let last = try send(client, "0ff00002")
        #expect(try client.wait(for: last).status == 200)
        #expect(client.goAways == [RawClient.GoAwayFrame(lastStream: last, code: 0, debug: "")])
        #expect(try client.wait(for: late).status == 200)
        try client.listen(milliseconds: 2000)
        #expect(client.isClosed)
        #expect(!client.wasReset)
    }

    @Test func `a graceful GOAWAY comes in two steps`() throws {
        let client = try warmConnection()
        // An open stream keeps the client's own session interested in what comes.
        let late = try send(client, "de1ade1a0200")
        let last = try send(client, "0ff00001")
        #expect(try client.wait(for: last).status == 200)
        #expect(client.goAways.map(\.lastStream) == [Int32.max])
        #expect(try client.wait(for: late).status == 200)
        #expect(client.goAways.map(\.lastStream) == [Int32.max, last])
        try client.listen(milliseconds: 2000)
        #expect(client.isClosed)
    }

    @Test func `a GOAWAY below open streams leaves them unprocessed`() throws {
        let client = try warmConnection()
        let first = try send(client, "de1ade1a0100")
        let second = try send(client, "0ff000030001")
        // The client's own session ends the streams above the last id as refused.
        #expect(try client.wait(for: second).closeCode == 7)
        #expect(client.goAways.map(\.lastStream) == [first])
        #expect(try client.wait(for: first).status == 200)
    }

    @Test func `a GOAWAY may carry a reason and keep the socket open`() throws {
        let client = try warmConnection()
        #expect(try answer(client, "0ff00004").status == 200)
        #expect(client.goAways.map(\.debug) == ["{\"reason\":\"Shutdown\"}"])
        try client.listen(milliseconds: 150)
        #expect(!client.isClosed)
    }

    @Test func `after the first step every new stream may be refused for ever`() throws {
        let client = try fixture.connect()
        fixture.simulator.control.perform(.goAway(GoAway(lastStream: .graceful, then: .refuseNew)), on: .apnsProduction)
        try client.pump { !client.goAways.isEmpty }
        // A well-behaved session sends nothing after GOAWAY; the request never leaves.
        let stream = try send(client)
        try client.pump { client.answers[stream]?.closeCode != nil }
        #expect(client.answers[stream]?.closeCode == 7)
        #expect(!client.isClosed)
    }

    @Test func `connections are reset, closed and frozen`() throws {
        let reset = try warmConnection()
        _ = try? answer(reset, "c105e001")
        #expect(reset.isClosed)
        #expect(reset.wasReset)
        let closed = try warmConnection()
        _ = try? answer(closed, "c105e002")
        #expect(closed.isClosed)
        #expect(!closed.wasReset)
        let frozen = try warmConnection()
        _ = try send(frozen, "c105e003")
        try frozen.ping()
        try frozen.listen(milliseconds: 150)
        #expect(!frozen.isClosed)
        #expect(frozen.pingAcks == 0)
    }

    @Test func `a connection may stop answering and still acknowledge pings`() throws {
        let client = try warmConnection()
        let stream = try send(client, "c105e004")
        let next = try send(client)
        try client.ping()
        try client.pump { client.pingAcks == 1 }
        #expect(client.answers[stream]?.closeCode == nil)
        #expect(client.answers[next]?.closeCode == nil)
        #expect(fixture.simulator.ledger.totals.unanswered == 2)
    }

    @Test func `the stream limit changes with a token, by rule and at once`() throws {
        let client = try warmConnection()
        #expect(try answer(client, "5a1e5a1e0005").status == 200)
        try client.pump { client.announcedStreams.last == 5 }
        fixture.simulator.control.perform(.settings(maxConcurrentStreams: 9))
        try client.pump { client.announcedStreams.last == 9 }
        fixture.simulator.control.set(rules: [
            Rule(.settings(maxConcurrentStreams: 3), scope: .connection, skip: 1, times: 1)
        ])
        #expect(try answer(client).status == 200)
        #expect(client.announcedStreams.last == 9)
        #expect(try answer(client).status == 200)
        try client.pump { client.announcedStreams.last == 3 }
    }

    @Test(arguments: AnswerBody.allCases)
    func `bodies that break parsers come whole`(body: AnswerBody) throws {
        fixture.simulator.control.set(rules: [Rule(.body(status: 503, body))])
        let answer = try answer(try fixture.connect())
        #expect(answer.status == 503)
        #expect(answer.isWhole)
        switch body {
        case .oneMegabyte: #expect(answer.body.count == 1_048_576)
        case .empty: #expect(answer.body.isEmpty)
        default: #expect(!answer.body.isEmpty)
        }
    }

    @Test func `retry-after comes in seconds, as a date and as nonsense`() throws {
        let client = try fixture.connect()
        let values: [(RetryAfter, String)] = [
            (.seconds(120), "120"),
            (.dateInSeconds(120), "Thu, 01 Jan 2026 00:02:00 GMT"),
            (.dateInSeconds(-86_400), "Wed, 31 Dec 2025 00:00:00 GMT"),
            (.text("abc"), "abc"),
        ]
        for (value, text) in values {
            fixture.simulator.control.set(rules: [Rule(.reject(reason: "TooManyRequests"), retryAfter: value)])
            let refused = try answer(client)
            #expect(refused.status == 429)
            #expect(refused.headers["retry-after"] == text)
        }
    }

    @Test func `a rate limit answers 429 and cuts those who go on`() throws {
        fixture.simulator.control.set { script in
            script.rateLimits[.apnsProduction] = RateLimit(
                requests: 2,
                windowMilliseconds: 600_000,
                retryAfter: .seconds(5),
                dropConnectionAfter: 1
            )
        }
        let client = try fixture.connect()
        #expect(try answer(client).status == 200)
        #expect(try answer(client).status == 200)
        let refused = try answer(client)
        #expect(refused.status == 429)
        #expect(refused.headers["retry-after"] == "5")
        _ = try? answer(client)
        #expect(client.wasReset)
    }

    @Test func `too many bad tokens end the connection`() throws {
        let strict = try Fixture { $0.apns.goAwayAfterBadTokens = 2 }
        let client = try strict.connect()
        for _ in 0..<2 {
            let headers = try strict.alertHeaders(token: token)
            _ = try client.answer(
                "POST",
                Fixture.path(Fixture.token("bad40002")),
                headers: headers,
                body: Fixture.alert
            )
        }
        #expect(client.goAways.map(\.debug) == ["{\"reason\":\"BadDeviceToken\"}"])
    }

    @Test func `new connections can be reset or ignored`() throws {
        fixture.simulator.control.set { $0.resetsNewConnections = [.apnsProduction] }
        #expect(throws: (any Error).self) { try fixture.connect() }
        fixture.simulator.control.reset()
        #expect(try answer(try fixture.connect()).status == 200)
    }

    @Test func `latency holds back every answer`() throws {
        let client = try warmConnection()
        fixture.simulator.control.set { $0.latencyMilliseconds = 60_000 }
        let stream = try send(client)
        try client.ping()
        try client.pump { client.pingAcks == 1 }
        #expect(client.answers[stream]?.closeCode == nil)
        #expect(fixture.simulator.ledger.totals.accepted == 2)
    }
}
