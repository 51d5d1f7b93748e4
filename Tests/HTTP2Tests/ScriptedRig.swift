import HTTP2
import OpenSSL
import PushCore

/// A server that says what it is told to, a client with one pool to it, and what came back.
final class ScriptedRig: Sendable {
    let server: HostileServer
    let client: HTTP2Client
    let pool: PoolID
    let collector: Collector

    init(_ script: HostileServer.Script, configure: (inout PoolConfiguration) -> Void = { _ in }) throws {
        let collector = Collector()
        server = try HostileServer(script)
        self.collector = collector
        client = try HTTP2Client { collector.take($0) }
        var configuration = PoolConfiguration(
            host: "localhost",
            port: server.port,
            tls: try TLSContext(trustingAlso: server.caFile)
        )
        configuration.maximumConnections = 1
        configure(&configuration)
        pool = client.makePool(configuration)
    }

    /// So many requests with the body `{}`.
    static func makeBatch(
        _ count: Int,
        deadline: WallClock.Instant? = nil,
        timeLimit: Duration = .seconds(10)
    ) throws -> RequestBatch {
        var builder = RequestBatchBuilder(deadline: deadline, timeLimit: timeLimit, reserving: count)
        let body = builder.makeBody(.bytes(builder.store("{}")))
        for _ in 0..<count { try builder.add(path: builder.store("/"), body: body) }
        return builder.finish()
    }

    func status() async throws -> PoolStatus {
        guard let status = await client.status(of: pool) else { throw TestFailure("the pool is gone") }
        return status
    }

    func end() async {
        await client.stop(within: .zero)
        server.stop()
    }
}
