import HTTP2
import PushCore
import Testing

/// What a pool makes of a peer that chooses each frame and each TLS record.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct ScriptedPeerTests {
    @Test func `answers in more records than one turn reads free their streams at once`() async throws {
        var script = HostileServer.Script()
        script.isFrameByFrame = true
        script.answer = { Wire.headers($0, [SessionTests.ok], flags: 4) }
        script.ending = { Wire.data($0, "ok") }
        let rig = try ScriptedRig(script) {
            $0.initialStreams = 40
            $0.maximumStreams = 40
        }
        // No request's time ends before that of the suite: nothing but the answers makes the pool go on.
        let batch = try ScriptedRig.makeBatch(400, timeLimit: .seconds(600))
        rig.client.submit(batch, tag: 1, to: rig.pool)
        let seen = await rig.collector.wait(for: 400)
        #expect(seen.isEachOnce(400) && seen.allSatisfy { $0.status == 200 && $0.body == Array("ok".utf8) })
        await rig.end()
    }

    @Test func `a peer that greets and says goodbye in one breath is asked less and less often`() async throws {
        var script = HostileServer.Script()
        script.greeting = Wire.settings() + Wire.goAway(0)
        let rig = try ScriptedRig(script) {
            $0.backoff = Backoff(first: .milliseconds(100), longest: .milliseconds(400))
            $0.connectPatience = .seconds(2)
        }
        rig.client.submit(try ScriptedRig.makeBatch(20), tag: 1, to: rig.pool)
        let seen = await rig.collector.wait(for: 20)
        #expect(seen.isEachOnce(20))
        #expect(seen.allSatisfy { $0.kind == .unanswered(.connectFailed) && !$0.mayHaveBeenProcessed })
        // The waits sum up to the patience after some ten attempts; without them there are dozens more.
        #expect((2...25).contains(rig.server.connections))
        await rig.end()
    }

    @Test func `promise 5: a body whose window stays shut expires at its deadline`() async throws {
        var script = HostileServer.Script()
        script.greeting = Wire.settings([(4, 1)])
        let rig = try ScriptedRig(script) {
            $0.initialStreams = 5
            // No lost connection ends what the deadline must end.
            $0.pingAfterQuiet = nil
        }
        let batch = try ScriptedRig.makeBatch(
            5,
            deadline: WallClock.now() + .milliseconds(300),
            timeLimit: .seconds(600)
        )
        rig.client.submit(batch, tag: 1, to: rig.pool)
        let seen = await rig.collector.wait(for: 5)
        #expect(seen.isEachOnce(5) && seen.allSatisfy { $0.kind == .expired && !$0.mayHaveBeenProcessed })
        #expect(try await rig.status().streamsInFlight == 0)
        await rig.end()
    }

    struct Ending: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let code: UInt32
        let frames: @Sendable (Int) -> [UInt8]
    }

    /// What comes after the head of an answer and is not the end of it.
    static let endings = [
        Ending(testDescription: "REFUSED_STREAM", code: 7) { Wire.reset($0, 7) },
        Ending(testDescription: "a GOAWAY below the stream", code: 7) { Wire.goAway($0 - 2) },
        Ending(testDescription: "NO_ERROR", code: 0) { Wire.reset($0, 0) },
    ]

    @Test(arguments: endings)
    func `an answer that has begun and does not end leaves doubt, and its request does not go out again`(
        ending: Ending
    ) async throws {
        var script = HostileServer.Script()
        script.answer = { stream in
            // The first one is a good answer: a GOAWAY below it would name no stream at all.
            stream == 1
                ? Wire.headers(1, [SessionTests.ok])
                : Wire.headers(stream, [SessionTests.ok], flags: 4) + Wire.data(stream, "{", flags: 0)
                    + ending.frames(stream)
        }
        let rig = try ScriptedRig(script)
        for tag in 1...2 {
            rig.client.submit(try ScriptedRig.makeBatch(1), tag: tag, to: rig.pool)
            _ = await rig.collector.wait(for: tag)
        }
        let seen = rig.collector.seen
        #expect(seen.first?.status == 200)
        #expect(seen.last?.kind == .unanswered(.streamReset(code: ending.code)))
        #expect(seen.last?.mayHaveBeenProcessed == true)
        #expect(try await rig.status().requestsSentAgain == 0)
        await rig.end()
    }
}
