import HTTP2
import OpenSSL
import ProviderSimulator
import PushCore

/// A simulator, a client with one pool to one of its roles, and what came back.
final class Rig: Sendable {
    let simulator: ProviderSimulator
    let client: HTTP2Client
    let pool: PoolID
    let collector: Collector
    let role: ProviderRole

    init(
        _ role: ProviderRole = .apnsProduction,
        options: SimulatorOptions = SimulatorOptions(),
        script: SimulatorControl.Script? = nil,
        trusting: Bool = true,
        configure: (inout PoolConfiguration) -> Void = { _ in }
    ) throws {
        let simulator = try ProviderSimulator.start(options)
        if let script { simulator.control.set { $0 = script } }
        let collector = Collector()
        self.simulator = simulator
        self.collector = collector
        self.role = role
        client = try HTTP2Client { collector.take($0) }
        var configuration = PoolConfiguration(
            host: "localhost",
            port: UInt16(simulator.endpoint(role).port),
            tls: try TLSContext(trustingAlso: trusting ? simulator.caFile : nil)
        )
        configuration.backoff = Backoff(first: .milliseconds(5), longest: .milliseconds(20))
        configuration.connectPatience = .seconds(20)
        configuration.responseFields = ["apns-id", "apns-unique-id", "retry-after"]
        configure(&configuration)
        pool = client.makePool(configuration)
        try setProviderToken(issuedAt: WallClock.now().secondsSinceEpoch)
    }

    /// Makes a provider token that the simulator accepts, and gives it to the pool.
    func setProviderToken(issuedAt: Int64) throws {
        let key = try SigningKey(pem: Array(simulator.apnsKeyPEM.utf8), algorithm: .es256, purpose: "the APNs key")
        let token = try JSONWebToken.make(
            header: Array(#"{"alg":"ES256","kid":"\#(simulator.keyID)"}"#.utf8),
            claims: Array(#"{"iss":"\#(simulator.teamID)","iat":\#(issuedAt)}"#.utf8),
            signedWith: key
        )
        try client.setField("authorization", value: Array("bearer ".utf8) + token, of: pool)
    }

    /// A token that holds no word of the simulator.
    static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return "aa" + String(repeating: "0", count: 62 - digits.utf8.count) + digits
    }

    func makeBatch(
        _ tokens: [String],
        deadline: WallClock.Instant? = nil,
        timeLimit: Duration = .seconds(20),
        body parts: (inout RequestBatchBuilder) -> RequestBody = { builder in
            builder.makeBody(.bytes(builder.store(#"{"aps":{"alert":"hello"}}"#)))
        }
    ) throws -> RequestBatch {
        var builder = RequestBatchBuilder(deadline: deadline, timeLimit: timeLimit, reserving: tokens.count)
        try builder.addField("apns-topic", value: "com.example.app")
        try builder.addField("apns-push-type", value: "alert")
        let body = parts(&builder)
        for token in tokens { try builder.add(path: builder.store("/3/device/" + token), body: body) }
        return builder.finish()
    }

    @discardableResult
    func send(
        _ tokens: [String],
        tag: Int = 1,
        deadline: WallClock.Instant? = nil,
        timeLimit: Duration = .seconds(20)
    ) throws -> RequestBatch {
        let batch = try makeBatch(tokens, deadline: deadline, timeLimit: timeLimit)
        client.submit(batch, tag: tag, to: pool)
        return batch
    }

    @discardableResult
    func send(
        _ count: Int,
        tag: Int = 1,
        deadline: WallClock.Instant? = nil,
        timeLimit: Duration = .seconds(20)
    ) throws -> RequestBatch {
        try send((0..<count).map(Rig.token), tag: tag, deadline: deadline, timeLimit: timeLimit)
    }

    func status() async throws -> PoolStatus {
        guard let status = await client.status(of: pool) else { throw TestFailure("the pool is gone") }
        return status
    }

    func end() async {
        await client.stop(within: .zero)
        simulator.stop()
    }
}

/// A script of the simulator, changed from accepting everything.
func scripted(_ change: (inout SimulatorControl.Script) -> Void) -> SimulatorControl.Script {
    var script = SimulatorControl.Script()
    change(&script)
    return script
}
