import HTTP2
import PushCore
import Testing

/// What a pool makes of a peer that chooses each frame and each TLS record.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct ScriptedPeerTests {
    @Test func `answers in more records than one turn reads free their streams at once`() async throws {
        var script = HostileServer.Script()
        script.isFrameByFrame = true
        script.answer = { Frame.headers($0) }
        script.ending = { Frame.data($0, Array("ok".utf8), ends: true) }
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
        script.greeting = Frame.settings() + Frame.goAway(0)
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
}
