import Glibc
import Postgres
package import Testing

/// The `peal` command as a child process of one test. It is killed with this actor's thread, however the test ends.
package actor PealProcess {
    private nonisolated let executor: DedicatedThreadExecutor
    private nonisolated let outputPath: String
    private var child: ChildProcess?

    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    fileprivate init(outputPath: String) {
        executor = DedicatedThreadExecutor(name: "peal-process")
        self.outputPath = outputPath
    }

    deinit {
        executor.stop()
    }

    fileprivate func start(_ command: [String], environment: [String: String], directory: String) throws {
        let path = "PATH=\(Self.buildDirectory):/usr/local/bin:/usr/bin:/bin"
        let variables = environment.map { "\($0.key)=\($0.value)" }
        child = try ChildProcess.start(
            ["setpriv", "--pdeathsig", "KILL", "--", "env", "--chdir=\(directory)", path] + variables + command,
            outputPath: outputPath
        )
    }

    /// Sends a signal; nothing when the process has ended.
    package func signal(_ number: Int32) {
        child?.signal(number)
    }

    /// A figure of the running process from `/proc/PID/status`, such as `VmHWM` (in KiB) or `Threads`; nil once it ended.
    package func figure(_ name: String) -> Int? {
        guard let child else { return nil }
        let line = fileText("/proc/\(child.processID)/status").split(separator: "\n").first { $0.hasPrefix("\(name):") }
        return line.flatMap { Int($0.drop { !$0.isNumber }.prefix { $0.isNumber }) }
    }

    /// The exit status, or 128 and the signal that ended it; nil while it runs.
    package func exitStatus() -> Int32? {
        guard let child, let status = child.wait(until: .now) else { return ended }
        ended = status
        self.child = nil
        return status
    }

    private var ended: Int32?

    /// Waits for the end. Throws, with what the process wrote, when that takes too long.
    package func waitForExit(upTo limit: Duration = .seconds(20)) async throws -> Int32 {
        do {
            try await wait(for: "peal to end", upTo: limit) { exitStatus() != nil }
        } catch let error as WaitTimeout {
            throw WaitTimeout("\(error.awaited); it wrote: \(output)")
        }
        return ended ?? -1
    }

    /// Waits for the end, which must come with this exit status.
    package func expectExit(
        _ expected: Int32,
        upTo limit: Duration = .seconds(20),
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let status = try await waitForExit(upTo: limit)
        #expect(status == expected, "\(output)", sourceLocation: sourceLocation)
    }

    /// Waits until the process has written a text. Throws when it does not, or ends before.
    package func waitForOutput(_ text: String, upTo limit: Duration = .seconds(30)) async throws {
        do {
            try await wait(for: "peal to write '\(text)'", upTo: limit) {
                if output.contains(text) { return true }
                if let status = exitStatus() { throw WaitTimeout("peal to write '\(text)': it ended with \(status)") }
                return false
            }
        } catch let error as WaitTimeout {
            throw WaitTimeout("\(error.awaited); it wrote: \(output)")
        }
    }

    /// What the process has written so far, standard output and standard error.
    package nonisolated var output: String { fileText(outputPath) }

    fileprivate func kill() {
        child?.signal(SIGKILL)
        _ = child?.wait(until: .now + .seconds(10))
        child = nil
    }

    /// Where this test was built, and `peal` beside it.
    private static var buildDirectory: String {
        var path = [CChar](repeating: 0, count: 4096)
        let length = unsafe readlink("/proc/self/exe", &path, path.count)
        let test = String(decoding: path.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return test.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
    }
}

/// Runs `peal` with these words while `body` runs, and kills it afterwards if it still runs.
package func withPeal<Value>(
    _ words: [String],
    environment: [String: String],
    in directory: String = "/",
    _ body: (PealProcess) async throws -> Value
) async throws -> Value {
    try await withCommand(["peal"] + words, environment: environment, in: directory, body)
}

private func withCommand<Value>(
    _ command: [String],
    environment: [String: String],
    in directory: String,
    _ body: (PealProcess) async throws -> Value
) async throws -> Value {
    try await withScratchDirectory { scratch in
        let process = PealProcess(outputPath: "\(scratch)/output")
        let value: Value
        do {
            try await process.start(command, environment: environment, directory: directory)
            value = try await body(process)
        } catch {
            await process.kill()
            throw error
        }
        await process.kill()
        return value
    }
}

/// Runs `peal` with these words to its end: its exit status and what it wrote.
package func runPeal(
    _ words: [String],
    environment: [String: String],
    upTo limit: Duration = .seconds(30)
) async throws -> (status: Int32, output: String) {
    try await runCommand(["peal"] + words, environment: environment, upTo: limit)
}

/// Runs a program that may call `peal` to its end: its exit status and what it wrote.
package func runCommand(
    _ command: [String],
    environment: [String: String] = [:],
    upTo limit: Duration = .seconds(30)
) async throws -> (status: Int32, output: String) {
    try await withCommand(command, environment: environment, in: "/") { process in
        let status = try await process.waitForExit(upTo: limit)
        return (status, process.output)
    }
}

/// Gives a test a directory of its own in /tmp that other users can pass through, and removes it when the test ends.
package func withScratchDirectory<Value>(_ body: (String) async throws -> Value) async throws -> Value {
    var template = Array("/tmp/peal-test-XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else { throw WaitTimeout("a directory in /tmp") }
    let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    unsafe chmod(directory, 0o755)
    let value: Value
    do {
        value = try await body(directory)
    } catch {
        try removeTree(directory)
        throw error
    }
    try removeTree(directory)
    return value
}

private func removeTree(_ path: String) throws {
    _ = try ChildProcess.run(["rm", "-rf", "--", path], outputPath: "/dev/null", within: .seconds(30))
}

/// A file's text; empty when it cannot be read.
private func fileText(_ path: String) -> String {
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return "" }
    defer { close(file) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1 << 16)
    while true {
        let count = unsafe read(file, &chunk, chunk.count)
        guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
        bytes += chunk[..<count]
    }
}
