import Postgres
import Telemetry
import TestSupport
import Testing

@Suite struct LoopDriverTests {
    private func makeDriver(poll: Duration = .milliseconds(1)) -> LoopDriver<ContinuousClock> {
        LoopDriver(poll: poll, clock: ContinuousClock(), logger: Logger(level: .error))
    }

    private static let failure = PostgresError(.connection, activity: "test", message: "the server is away")

    @Test func `turns follow each other at once while there is work`() async {
        let driver = makeDriver(poll: .seconds(600))
        var turns = 0
        await driver.run { () throws(PostgresError) in
            turns += 1
            if turns == 1_000 { driver.stop() }
            return true
        }
        #expect(turns == 1_000)
    }

    @Test func `without work it polls, and a wake-up does not wait for the poll`() async {
        let polling = makeDriver()
        var turns = 0
        await polling.run { () throws(PostgresError) in
            turns += 1
            if turns == 5 { polling.stop() }
            return false
        }
        #expect(turns == 5)
        let woken = makeDriver(poll: .seconds(600))
        turns = 0
        await woken.run { () throws(PostgresError) in
            turns += 1
            if turns < 5 { woken.wake() } else { woken.stop() }
            return false
        }
        #expect(turns == 5)
    }

    @Test func `an error never ends it`() async {
        let driver = makeDriver()
        var turns = 0
        await driver.run { () throws(PostgresError) in
            turns += 1
            if turns < 4 { throw Self.failure }
            driver.stop()
            return false
        }
        #expect(turns == 4)
    }

    @Test func `a stop ends the pause after an error, and a wake-up does not`() async {
        let driver = makeDriver()
        let pause = Task { await driver.pause(.seconds(600)) }
        driver.wake()
        driver.stop()
        await pause.value
        let start = ContinuousClock.now
        let patient = makeDriver()
        patient.wake()
        await patient.pause(.milliseconds(20))
        #expect(ContinuousClock.now - start >= .milliseconds(20))
    }

    @Test func `a kept connection is opened once, and anew when it broke`() async throws {
        try await withEmptyDatabase { database in
            let kept = KeptConnection(database.configuration())
            let first = try await kept.get()
            #expect(try await kept.get() === first)
            await first.close()
            let second = try await kept.get()
            #expect(second !== first)
            await kept.note(PostgresError(.deadline, activity: "test", message: "too slow"))
            #expect(try await kept.get() === second)
            await kept.note(Self.failure)
            #expect(second.condition == .closed)
            #expect(try await kept.get() !== second)
            await kept.close()
        }
    }
}
