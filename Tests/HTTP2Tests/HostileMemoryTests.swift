import Glibc
import HTTP2
import PushCore
import Testing

/// What hostile peers cost in memory: a process of its own holds a client and nothing else.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct HostileMemoryTests {
    @Test(arguments: HostileTests.floods + HostileTests.headers + HostileTests.endless)
    func `an attack costs the client little memory`(attack: HostileTests.Attack) async throws {
        let server = try HostileServer(attack.script)
        await #expect(processExitsWith: .success) {
            [port = server.port as UInt16, caFile = server.caFile as String] in
            let growth = try await HostileMemoryTests.growthUnderAttack(port: port, caFile: caFile)
            #expect(growth <= 16 << 20)
        }
        server.stop()
    }

    /// By how many bytes a client makes this process grow that sends twenty requests to a server which means ill.
    private static func growthUnderAttack(port: UInt16, caFile: String) async throws -> Int {
        let configuration = try HostileTests.poolUnderAttack(port: port, caFile: caFile)
        try forgetPeakMemory()
        let before = try peakMemory()
        let collector = Collector()
        let client = try HTTP2Client { collector.take($0) }
        let batch = try ScriptedRig.makeBatch(20, timeLimit: .milliseconds(300))
        client.submit(batch, tag: 1, to: client.makePool(configuration))
        let seen = await collector.wait(for: 20)
        #expect(seen.isEachOnce(20) && seen.allSatisfy { $0.kind != .answered })
        await client.stop(within: .zero)
        return try peakMemory() - before
    }

    /// Lets the peak of this process's memory begin anew at what it uses now.
    private static func forgetPeakMemory() throws {
        guard let file = unsafe fopen("/proc/self/clear_refs", "w") else { throw TestFailure("no clear_refs") }
        let written = unsafe fputs("5", file)
        let closed = unsafe fclose(file)
        try #require(written >= 0 && closed == 0)
    }

    /// The most memory of this process that was in RAM at once, in bytes.
    private static func peakMemory() throws -> Int {
        guard let file = unsafe fopen("/proc/self/status", "r") else { throw TestFailure("no status") }
        defer { unsafe fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while unsafe fgets(&line, 256, file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            guard text.hasPrefix("VmHWM:") else { continue }
            return try #require(Int(text.filter(\.isNumber))) * 1024
        }
        throw TestFailure("the kernel does not say how much memory the process had")
    }
}
