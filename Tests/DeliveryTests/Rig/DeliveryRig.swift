import Delivery
import OpenSSL
import Postgres
import ProviderSimulator
import PushCore
import Synchronization
import Telemetry
import TestSupport

/// A database, a simulated provider, and what a test of delivery needs of both.
final class DeliveryRig: Sendable {
    let database: TestDatabase
    let simulator: ProviderSimulator
    let masterKey: SealingKey
    /// The test's own connection.
    let connection: PostgresConnection

    private init(database: TestDatabase, simulator: ProviderSimulator) async throws {
        self.database = database
        self.simulator = simulator
        masterKey = try SealingKey(bytes: Array(repeating: 7, count: 32))
        connection = try await database.connect()
    }

    /// Runs a test with a rig of its own. At its end every count must add up.
    static func with(
        _ options: SimulatorOptions = SimulatorOptions(),
        _ body: (DeliveryRig) async throws -> Void
    ) async throws {
        await RigPlaces.shared.enter()
        defer { RigPlaces.shared.leave() }
        try await withDatabase { database in
            let simulator = try ProviderSimulator.start(options)
            defer { simulator.stop() }
            let rig = try await DeliveryRig(database: database, simulator: simulator)
            try await body(rig)
            try await rig.dropRoles()
            await rig.connection.close()
        }
    }

    /// A configuration for this rig's database and provider.
    func configuration(logger: Logger = Logger(level: .error)) -> DeliveryConfiguration {
        var configuration = DeliveryConfiguration(
            database: database.configuration(logger: logger),
            masterKey: masterKey,
            caFile: simulator.caFile,
            logger: logger
        )
        configuration.credentialRefresh = .milliseconds(200)
        // Each lane has two connections, and the server of the tests has a hundred.
        configuration.lanes = [.campaign]
        return configuration
    }

    /// Runs a delivery while `body` runs, then stops it.
    func deliver(
        _ change: (inout DeliveryConfiguration) -> Void = { _ in },
        within limit: Duration = .seconds(5),
        _ body: (DeliveryService) async throws -> Void
    ) async throws {
        var configuration = configuration()
        change(&configuration)
        let service = try DeliveryService(configuration)
        let running = Task { await service.run() }
        do {
            try await body(service)
        } catch {
            await service.stopNow()
            await running.value
            throw error
        }
        await service.stop(within: limit)
        await running.value
    }

    /// Runs a delivery until nothing of a job is left; false when that takes too long.
    func send(
        _ job: JobID,
        _ change: (inout DeliveryConfiguration) -> Void = { _ in },
        upTo limit: Duration = .seconds(20)
    ) async throws -> Bool {
        var isDone = false
        try await deliver(change) { _ in isDone = try await waitUntilDone(job, upTo: limit) }
        return isDone
    }

    /// Flushes that wait for a lock.
    static let flushesHeldUp = """
        SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND wait_event_type = 'Lock' AND query LIKE '-- Writes a flush%'
        """

    /// Another session, in whose transaction the script took its locks. They last until it commits or is closed.
    func hold(_ script: String) async throws -> PostgresConnection {
        let session = try await database.connect()
        try await session.execute("BEGIN; \(script)")
        return session
    }

    // MARK: Questions

    func query(_ text: String, _ parameters: PostgresParameters = .none) async throws -> PostgresRows {
        try await connection.query(SQLStatement(name: "test", text: text), parameters)
    }

    func number(_ text: String, _ parameters: PostgresParameters = .none) async throws -> Int64 {
        let rows = try await query(text, parameters)
        return try rows.int64OrNil(0, 0) ?? 0
    }

    func texts(_ text: String, _ parameters: PostgresParameters = .none) async throws -> [String] {
        let rows = try await query(text, parameters)
        return try rows.indices.map { try rows.textOrNil($0, 0) ?? "" }
    }

    /// Looks again and again until the condition holds; false when the limit comes first.
    func wait(
        upTo limit: Duration = .seconds(20),
        until condition: () async throws -> Bool
    ) async throws -> Bool {
        let deadline = ContinuousClock.now + limit
        let clock = Pause()
        while try await !condition() {
            guard ContinuousClock.now < deadline else { return false }
            await clock.pass(.milliseconds(10))
        }
        return true
    }

    /// Waits until nothing of a job is left in batches and delayed batches.
    func waitUntilDone(_ job: JobID, upTo limit: Duration = .seconds(20)) async throws -> Bool {
        try await wait(upTo: limit) { try await remaining(job) == 0 }
    }

    func remaining(_ job: JobID) async throws -> Int64 {
        try await number("SELECT peal.job_remaining(j) FROM peal.job AS j WHERE j.id = $1", [.job(job)])
    }

    /// How many recipients of a job have an outcome, by `outcome` or `outcome:reason`.
    func outcomes(_ job: JobID) async throws -> [String: Int64] {
        let rows = try await query(
            """
            SELECT peal.outcome_name(outcome) || coalesce(':' || reason, ''), count(*)
            FROM peal.result WHERE job_id = $1 GROUP BY 1
            """,
            [.job(job)]
        )
        return Dictionary(
            uniqueKeysWithValues: try rows.indices.map { (try rows.text($0, 0), try rows.int64($0, 1)) }
        )
    }

    /// Jobs whose count does not add up, and recipients with more than one outcome: none, ever.
    func accountingFaults() async throws -> Int64 {
        let unbalanced = try await number("SELECT count(*) FROM peal.check_accounting()")
        let twice = try await number(
            "SELECT count(*) FROM (SELECT FROM peal.result GROUP BY job_id, device_id HAVING count(*) > 1) AS twice"
        )
        return unbalanced + twice
    }
}

/// A bounded wait between two looks at a condition.
struct Pause {
    func pass(_ duration: Duration) async {
        let flag = Flag()
        await flag.wait(until: .now + duration)
    }

    // A flag that nobody raises.
    private struct Flag {
        func wait(until moment: ContinuousClock.Instant) async {
            _ = try? await ContinuousClock().sleep(until: moment)
        }
    }
}

/// Lets so many rigs be at work at once: the test process has one database server, and the machine few cores.
private final class RigPlaces: Sendable {
    static let shared = RigPlaces()

    private struct State {
        var free = 6
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func enter() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.free > 0 {
                    state.free -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    func leave() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.free += 1
            return nil
        }
        next?.resume()
    }
}
