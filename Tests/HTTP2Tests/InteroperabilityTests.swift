import HTTP2
import OpenSSL
import PushCore
import Testing

@Suite(.timeLimit(.minutes(1)))
struct InteroperabilityTests {
    @Test func `a server that is not ours answers ten thousand requests over several connections, each once`()
        async throws
    {
        let server = try NghttpdServer()
        let collector = Collector()
        let client = try HTTP2Client { collector.take($0) }
        var configuration = try Self.pool(to: server)
        configuration.responseFields = ["server", "nothing", "content-length"]
        let pool = client.makePool(configuration)
        try client.setField("authorization", value: Array("bearer abc".utf8), of: pool)

        var builder = RequestBatchBuilder(timeLimit: .seconds(30), reserving: 10_000)
        try builder.addField("apns-topic", value: "com.example.app")
        try builder.addOwnField("apns-id")
        let payload = builder.store(#"{"aps":{"alert":"hello"}}"#)
        let body = builder.makeBody(.bytes(payload))
        let path = builder.store("/file")
        for number in 0..<10_000 { try builder.add(path: path, ownValues: builder.store("id-\(number)"), body: body) }
        client.submit(builder.finish(), tag: 7, to: pool)

        let seen = await collector.wait(for: 10_000)
        #expect(seen.isEachOnce(10_000))
        #expect(seen.allSatisfy { $0.kind == .answered && $0.status == 200 && $0.tag == 7 })
        #expect(seen.allSatisfy { $0.body == Array("hello".utf8) })
        #expect(
            seen.allSatisfy { $0.fields[0]?.hasPrefix("nghttpd") == true && $0.fields[1] == nil && $0.fields[2] == "5" }
        )
        let status = try #require(await client.status(of: pool))
        #expect(status.connectionsOpened > 1)
        #expect(status.peerStreamLimits.allSatisfy { $0 == 100 })
        #expect(status.queued == 0 && status.streamsInFlight == 0 && status.requestsFramed == 10_000)
        await client.stop(within: .seconds(5))
        #expect(await client.status(of: pool) == nil)
    }

    private static func pool(to server: NghttpdServer) throws -> PoolConfiguration {
        var configuration = PoolConfiguration(
            host: "localhost",
            port: server.port,
            tls: try TLSContext(trustingAlso: server.caFile)
        )
        configuration.initialStreams = 100
        configuration.backoff = Backoff(first: .milliseconds(20), longest: .milliseconds(100))
        return configuration
    }

    // PEAL_WINDOW_REQUESTS makes a long run of it by hand.
    @Test func `a server that opens its windows byte by byte gets every body whole`() async throws {
        let count = environmentNumber("PEAL_WINDOW_REQUESTS") ?? 200
        let server = try NghttpdServer(options: ["--window-bits=1", "--echo-upload"])
        let collector = Collector()
        let client = try HTTP2Client { collector.take($0) }
        let pool = client.makePool(try Self.pool(to: server))
        var builder = RequestBatchBuilder(timeLimit: .seconds(50), reserving: count)
        let path = builder.store("/")
        for number in 0..<count {
            try builder.add(path: path, body: builder.makeBody(.bytes(builder.store("body of \(number)"))))
        }
        client.submit(builder.finish(), tag: 1, to: pool)
        let seen = await collector.wait(for: count)
        #expect(seen.isEachOnce(count) && seen.allSatisfy { $0.status == 200 })
        #expect(seen.allSatisfy { $0.body == Array("body of \($0.index)".utf8) })
        #expect(await client.status(of: pool)?.requestsFramed == count)
        await client.stop(within: .zero)
    }
}
