import Glibc
import ProviderSimulator
import Synchronization
import Testing

@Suite struct LedgerTests {
    private func send(_ fixture: Fixture, _ client: RawClient, _ words: [String]) throws {
        let token = try fixture.providerToken()
        for word in words {
            let headers = try fixture.alertHeaders(["apns-collapse-id": "c1"], token: token)
            _ = try client.answer("POST", Fixture.path(Fixture.token(word)), headers: headers, body: Fixture.alert)
        }
    }

    @Test func `a record tells what came and what was answered`() throws {
        let fixture = try Fixture()
        try send(fixture, try fixture.connect(), ["ab", "deadbeef"])
        let records = fixture.simulator.ledger.requests()
        try #require(records.count == 2)
        let first = records[0]
        #expect(first.number == 1)
        #expect(first.receivedAt == Fixture.now * 1_000_000)
        #expect(first.role == .apnsProduction)
        #expect(first.connection == 1)
        #expect(first.stream == 1)
        #expect(first.token == Fixture.token())
        #expect(first.topic == "com.example.app")
        #expect(first.pushType == "alert")
        #expect(first.priority == "10")
        #expect(first.expiration == "1767229200")
        #expect(first.collapseID == "c1")
        #expect(first.messageID == "6f1d3c52-0d0b-4f7e-9a57-1e0f5f2f9b10")
        #expect(first.payloadBytes == Fixture.alert.utf8.count)
        #expect(first.body.map { String(decoding: $0, as: UTF8.self) } == Fixture.alert)
        #expect(first.bearerHash?.utf8.count == 16)
        #expect(first.bearerHash == records[1].bearerHash)
        #expect(records[1].status == 410)
        #expect(records[1].reason == "Unregistered")
        #expect(fixture.simulator.ledger.requests(token: Fixture.token("deadbeef")) == [records[1]])
    }

    @Test func `counts per token add up to the totals`() throws {
        let fixture = try Fixture()
        try send(fixture, try fixture.connect(), ["ab", "ab", "ac", "deadbeef"])
        let ledger = fixture.simulator.ledger
        #expect(
            ledger.countsByToken() == [Fixture.token("ab"): 2, Fixture.token("ac"): 1, Fixture.token("deadbeef"): 1]
        )
        #expect(ledger.acceptedCountsByToken() == [Fixture.token("ab"): 2, Fixture.token("ac"): 1])
        #expect(ledger.acceptedHistogram() == [1: 1, 2: 1])
        #expect(ledger.totals.requests == 4)
        #expect(ledger.totals.accepted == 3)
        #expect(ledger.totals.rejected == 1)
        ledger.forget()
        #expect(ledger.totals.requests == 0)
        #expect(ledger.countsByToken().isEmpty)
    }

    @Test func `the oldest records fall out when the ledger is full`() throws {
        let fixture = try Fixture { $0.maximumRecords = 2 }
        try send(fixture, try fixture.connect(), ["aa", "ab", "ac"])
        #expect(fixture.simulator.ledger.requests().map(\.token) == [Fixture.token("ab"), Fixture.token("ac")])
        #expect(fixture.simulator.ledger.totals.recordsDropped == 1)
        #expect(fixture.simulator.ledger.totals.requests == 3)
    }

    @Test func `a ledger of tokens keeps counts and no records`() throws {
        let fixture = try Fixture { $0.ledger = .tokens }
        try send(fixture, try fixture.connect(), ["aa", "aa"])
        #expect(fixture.simulator.ledger.requests().isEmpty)
        #expect(fixture.simulator.ledger.count(token: Fixture.token("aa")).accepted == 2)
    }

    @Test func `waiting ends when the count is reached, and at the deadline`() async throws {
        let fixture = try Fixture()
        let ledger = fixture.simulator.ledger
        let reached = Task { await ledger.waitUntilAccepted(2, upTo: .seconds(30)) }
        try send(fixture, try fixture.connect(), ["aa", "ab"])
        #expect(await reached.value)
        #expect(await !ledger.waitUntil(99, upTo: .milliseconds(20)))
    }

    @Test func `stopping ends every wait`() async throws {
        let fixture = try Fixture()
        let reached = Task { await fixture.simulator.ledger.waitUntil(1, upTo: .seconds(60)) }
        fixture.simulator.stop()
        #expect(await !reached.value)
        fixture.simulator.stop()
    }

    @Test func `the listener hears each request`() throws {
        let box = Heard()
        let fixture = try Fixture { $0.listener = { box.add($0.token) } }
        try send(fixture, try fixture.connect(), ["aa", "ab"])
        #expect(box.tokens == [Fixture.token("aa"), Fixture.token("ab")])
    }

    private final class Heard: Sendable {
        private let list = Mutex<[String]>([])
        func add(_ token: String) { list.withLock { $0.append(token) } }
        var tokens: [String] { list.withLock { $0 } }
    }

    @Test func `connections tell their requests, peak and pings`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect()
        try send(fixture, client, ["aa", "ab"])
        try client.ping()
        try client.pump { client.pingAcks == 1 }
        fixture.simulator.stop()
        let record = try #require(fixture.simulator.ledger.connections().first)
        #expect(record.requests == 2)
        #expect(record.peakOpenStreams == 1)
        #expect(record.pings == 1)
        #expect(!record.isOpen)
        #expect(fixture.simulator.ledger.totals.connectionsOpen == 0)
        #expect(fixture.simulator.ledger.totals.connectionsOpened == 1)
    }

    @Test func `the file holds one line of JSON per request`() throws {
        let path = try TemporaryFile.path("ledger.jsonl")
        defer { TemporaryFile.remove(path) }
        let fixture = try Fixture {
            $0.ledgerFile = path
            $0.keepsBodies = false
        }
        try send(fixture, try fixture.connect(), ["aa", "deadbeef"])
        fixture.simulator.ledgerFile?.flush()
        let lines = try TemporaryFile.read(path).split(separator: "\n")
        try #require(lines.count == 2)
        #expect(
            lines[0].hasPrefix(
                "{\"number\":1,\"time_us\":1767225600000000,\"role\":\"apns-production\",\"connection\":1,"
            )
        )
        #expect(lines[0].hasSuffix("\"bytes\":\(Fixture.alert.utf8.count),\"status\":200}"))
        #expect(lines[1].contains("\"reason\":\"Unregistered\""))
        #expect(!lines[0].contains("\"headers\"") && !lines[0].contains("\"body\""))
    }

    @Test func `in detail a line has method, path, all fields and the body, and no bearer token`() throws {
        let path = try TemporaryFile.path("ledger.jsonl")
        defer { TemporaryFile.remove(path) }
        let fixture = try Fixture {
            $0.ledgerFile = path
            $0.keepsHeaders = true
        }
        let token = try fixture.providerToken()
        let client = try fixture.connect()
        let headers = try fixture.alertHeaders(["x-unknown": "of \"ours\""], token: token)
        _ = try client.answer("POST", Fixture.path(Fixture.token()), headers: headers, body: Fixture.alert)
        _ = try fixture.accessToken()
        fixture.simulator.ledgerFile?.flush()
        let text = try TemporaryFile.read(path)
        let lines = text.split(separator: "\n")
        try #require(lines.count == 2)
        let hash = try #require(fixture.simulator.ledger.requests().first?.bearerHash)
        #expect(lines[0].contains(",\"method\":\"POST\",\"path\":\"/3/device/\(Fixture.token())\",\"headers\":[["))
        #expect(lines[0].contains("[\"apns-priority\",\"10\"]"))
        #expect(lines[0].contains("[\"authorization\",\"bearer \(hash)\"]"))
        #expect(lines[0].contains("[\"x-unknown\",\"of \\\"ours\\\"\"]"))
        #expect(lines[0].contains("\"body\":\"{\\\"aps\\\":{\\\"alert\\\":\\\"hi\\\"}}\""))
        #expect(!text.contains(token))
        #expect(lines[1].contains("&assertion=") && !lines[1].contains("assertion=ey"))
    }
}

/// Files of the tests, each in a directory of its own.
enum TemporaryFile {
    static func path(_ name: String) throws -> String {
        var template = Array("/tmp/peal-simulator-test-XXXXXX".utf8CString)
        let directory = unsafe template.withUnsafeMutableBufferPointer { buffer -> String? in
            guard let base = buffer.baseAddress, let made = unsafe mkdtemp(base) else { return nil }
            return unsafe String(cString: made)
        }
        guard let directory else { throw RawClient.Failure(description: "no temporary directory") }
        return "\(directory)/\(name)"
    }

    static func remove(_ path: String) {
        _ = unsafe unlink(path)
        _ = unsafe rmdir(String(path.prefix(upTo: path.lastIndex(of: "/") ?? path.startIndex)))
    }

    static func write(_ text: String, to path: String) throws {
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        guard unsafe Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
            throw RawClient.Failure(description: "cannot write \(path)")
        }
    }

    static func read(_ path: String) throws -> String {
        let descriptor = unsafe open(path, O_RDONLY)
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 1_048_576)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
        guard count >= 0 else { throw RawClient.Failure(description: "cannot read \(path)") }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
