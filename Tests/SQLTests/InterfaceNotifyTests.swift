import Postgres
import PushCore
import SQLText
import Synchronization
import TestSupport
import Testing

/// What is told to those who listen, and that the batches of campaigns tell nobody.
@Suite struct InterfaceNotifyTests {
    /// What a listener heard, as `channel payload`.
    private final class Heard: Sendable {
        private let events = Mutex<[String]>([])
        func note(_ text: String) { events.withLock { $0.append(text) } }
        var all: [String] { events.withLock { $0 } }
    }

    /// What was notified between two marks: the body's statements, and a mark that follows them.
    private func notifications(_ fixture: SendFixture, _ body: () async throws -> Void) async throws -> [String] {
        let heard = Heard()
        let listener = PostgresListener(
            fixture.database.configuration(),
            channels: ["peal_small_job", "peal_job", "peal_batch", "peal_control", "mark"],
            healthPing: SQLText.healthPing,
            readProcessID: SQLText.listenerReadProcessID
        )
        let task = Task {
            await listener.run { event in
                switch event {
                case .listening: heard.note("listening")
                case .notification(let notification): heard.note("\(notification.channel) \(notification.payload)")
                case .lost: heard.note("lost")
                }
            }
        }
        try await eventually("the listener listens") { heard.all.contains("listening") }
        try await body()
        try await fixture.query("SELECT pg_notify('mark', '')")
        try await eventually("the mark is heard") { heard.all.contains("mark ") }
        task.cancel()
        await task.value
        return heard.all.filter { $0 != "listening" && $0 != "mark " }
    }

    @Test func `an urgent job that is due wakes the fan-out, its batches wake the delivery`() async throws {
        try await withSendFixture(devices: 10) { (fixture) async throws in
            let heard = try await notifications(fixture) {
                _ = try await fixture.insertJob(audience: #"{"device_ids": [1]}"#)
                _ = try await fixture.insertJob(audience: #"{"device_ids": [2]}"#, lane: .call)
                _ = try await fixture.insertJob(audience: #"{"all": true}"#, lane: .transactional)
                try await fixture.query("SELECT peal.fan_out_small('call', 10, NULL)")
                try await fixture.query("SELECT peal.fan_out_small('transactional', 10, NULL)")
                try await fixture.query("SELECT peal.fan_out_small('transactional', 10, NULL)")
            }
            #expect(
                heard == [
                    "peal_small_job transactional", "peal_small_job call", "peal_job transactional", "peal_batch call",
                    "peal_batch transactional",
                ]
            )
        }
    }

    @Test func `a campaign tells once, a job for later never, and a thousand urgent ones once`() async throws {
        try await withSendFixture(devices: 10) { (fixture) async throws in
            let heard = try await notifications(fixture) {
                let job = try await fixture.insertJob(audience: #"{"all": true}"#)
                let token = PostgresParameter.uuid(UUIDValue.random())
                try await fixture.query("SELECT peal.claim_jobs('campaign', $1, '1 hour', 10)", [token])
                try await fixture.query("SELECT peal.freeze_step($1, $2, '1 hour', 100)", [.job(job), token])
                try await fixture.query("SELECT peal.publish_pages($1, $2, '1 hour', 64)", [.job(job), token])
                try await fixture.query(
                    """
                    INSERT INTO peal.job (app, audience, content, send_at)
                    VALUES ('shop', '{"device_ids": [1]}', '{"title": "x"}', now() + interval '1 hour')
                    """
                )
            }
            #expect(heard == ["peal_job campaign"])
            let many = try await notifications(fixture) {
                try await fixture.query(
                    """
                    INSERT INTO peal.job (app, audience, content)
                    SELECT 'shop', '{"device_ids": [1]}', '{"title": "x"}' FROM generate_series(1, 1000)
                    """
                )
            }
            #expect(many == ["peal_small_job transactional"])
        }
    }

    @Test func `cancel, pause and resume tell the workers which job, resume wakes the fan-out`() async throws {
        try await withSendFixture(devices: 10) { (fixture) async throws in
            let job = try await fixture.insertJob(audience: #"{"all": true}"#)
            let control = "peal_control \(job)"
            for (function, told) in [
                ("pause_job", [control]), ("resume_job", ["peal_job campaign", control]), ("cancel_job", [control]),
                ("cancel_job", []),
            ] {
                // Each by itself: equal ones that come together are told once.
                let heard = try await notifications(fixture) { () async throws in
                    try await fixture.query("SELECT peal.\(function)($1)", [.job(job)])
                }
                #expect(heard == told, "\(function)")
            }
        }
    }

    @Test(arguments: [Lane.transactional, .campaign])
    func `a job that was scheduled is told of when it is staged`(lane: Lane) async throws {
        try await withSendFixture(devices: 10) { (fixture) async throws in
            try await fixture.query(
                """
                INSERT INTO peal.job (app, lane, audience, content, send_at)
                VALUES ('shop', '\(lane.name)', '{"device_ids": [1]}', '{"title": "x"}', now() + interval '1 hour')
                """
            )
            try await fixture.query("UPDATE peal.job SET send_at = now() - interval '1 second'")
            let heard = try await notifications(fixture) {
                _ = try await fixture.connection.query(SQLText.schedulerStageJobs, [.int32(10)])
            }
            #expect(heard == ["peal_job \(lane.name)"])
        }
    }
}
