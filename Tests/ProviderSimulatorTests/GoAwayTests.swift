import ProviderSimulator
import Testing

@Suite struct GoAwayTests {
    private let fixture: Fixture
    private let token: String

    init() throws {
        fixture = try Fixture()
        token = try fixture.providerToken()
    }

    private func send(_ client: RawClient, _ word: String) throws -> Int32 {
        try client.send(
            "POST",
            Fixture.path(Fixture.token(word)),
            headers: try fixture.alertHeaders(token: token),
            body: Fixture.alert
        )
    }

    private func warmConnection() throws -> RawClient {
        let client = try fixture.connect()
        #expect(try client.wait(for: try send(client, "ab")).status == 200)
        try client.pump { client.announcedStreams.last == 1000 }
        return client
    }

    @Test func `what a GOAWAY excludes was not processed`() throws {
        let client = try warmConnection()
        let kept = try send(client, "de1ade1a0100aa")
        _ = try send(client, "de1ade1a0100bb")
        let last = try send(client, "0ff000030002")
        #expect(try client.wait(for: last).closeCode == 7)
        #expect(try client.wait(for: kept).status == 200)
        #expect(client.goAways.map(\.lastStream) == [kept])
        let ledger = fixture.simulator.ledger
        #expect(ledger.totals.accepted == 2 && ledger.totals.unanswered == 2 && ledger.totals.requests == 4)
        #expect(ledger.count(token: Fixture.token("de1ade1a0100aa")).accepted == 1)
        for word in ["de1ade1a0100bb", "0ff000030002"] {
            #expect(ledger.count(token: Fixture.token(word)).accepted == 0)
            #expect(ledger.requests(token: Fixture.token(word)).map(\.reason) == ["goaway"])
        }
    }

    @Test func `a GOAWAY never excludes what was answered`() throws {
        let client = try warmConnection()
        let last = try send(client, "0ff000030009")
        #expect(try client.wait(for: last).closeCode == 7)
        #expect(client.goAways.map(\.lastStream) == [1])
        #expect(fixture.simulator.ledger.totals.accepted == 1)
    }

    @Test func `the file gets a second line for what a GOAWAY excluded`() throws {
        let path = try TemporaryFile.path("ledger.jsonl")
        defer { TemporaryFile.remove(path) }
        let fixture = try Fixture { $0.ledgerFile = path }
        let client = try fixture.connect()
        let headers = try fixture.alertHeaders(token: token)
        let stream = try client.send(
            "POST",
            Fixture.path(Fixture.token("0ff000030001")),
            headers: headers,
            body: Fixture.alert
        )
        _ = try client.wait(for: stream)
        fixture.simulator.ledgerFile?.flush()
        let lines = try TemporaryFile.read(path).split(separator: "\n")
        #expect(lines.count == 2 && lines.allSatisfy { $0.hasPrefix("{\"number\":1,") })
        #expect(lines.last?.contains("\"reason\":\"goaway\"") == true && lines.last?.hasSuffix("\"status\":0}") == true)
    }

    /// A simulator that checks nothing and answers nothing.
    private func silentFixture() throws -> Fixture {
        let fixture = try Fixture { $0.depth = .quick }
        fixture.simulator.control.set(rules: [Rule(.silence)])
        return fixture
    }

    @Test func `the 101st stream to FCM ends the connection`() throws {
        let fixture = try silentFixture()
        let client = try fixture.connect(.fcm)
        #expect(client.announcedStreams == [100])
        for number in 0..<101 { try client.sendAgainstTheRules(stream: UInt32(2 * number + 1)) }
        try client.pump { !client.goAways.isEmpty }
        let first = try #require(client.goAways.first)
        #expect(first == RawClient.GoAwayFrame(lastStream: 199, code: 1, debug: "exceeded_max_concurrent_streams"))
        try client.listen(milliseconds: 2000)
        #expect(client.isClosed)
        #expect(fixture.simulator.ledger.totals.requests == 100)
    }
}
