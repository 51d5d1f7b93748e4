import CPostgres
import Glibc

/// A program that was started and is waited for by one thread.
///
/// It begins with an empty signal mask, in a process group of its own (a Ctrl-C in the terminal is ours to handle),
/// without our descriptors and with a small environment.
package struct ChildProcess: Sendable {
    package let processID: Int32

    /// Starts a program; its output goes to the end of a file.
    package static func start(_ arguments: [String], outputPath: String) throws(PostgresError) -> ChildProcess {
        var actions = unsafe posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        unsafe posix_spawn_file_actions_init(&actions)
        unsafe posix_spawnattr_init(&attributes)
        defer {
            unsafe posix_spawn_file_actions_destroy(&actions)
            unsafe posix_spawnattr_destroy(&attributes)
        }
        unsafe posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        let flags = O_WRONLY | O_CREAT | O_APPEND
        unsafe posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, outputPath, flags, 0o600)
        unsafe posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
        unsafe posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1)
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe posix_spawnattr_setsigmask(&attributes, &signals)
        unsafe sigfillset(&signals)
        unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
        let spawnFlags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        unsafe posix_spawnattr_setflags(&attributes, Int16(spawnFlags))
        let environment = ["PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"]
        var processID: pid_t = 0
        let program = arguments[0]
        let result = withCStrings(arguments) { arguments in
            withCStrings(environment) { environment in
                unsafe posix_spawnp(&processID, program, &actions, &attributes, arguments, environment)
            }
        }
        guard result == 0 else {
            throw PostgresError(.cluster, activity: "start \(program)", message: SystemError.text(result))
        }
        return ChildProcess(processID: processID)
    }

    /// Runs a program to its end and returns its exit status; kills it when the time is over.
    package static func run(
        _ arguments: [String],
        outputPath: String,
        within time: Duration
    ) throws(PostgresError) -> Int32 {
        let child = try start(arguments, outputPath: outputPath)
        if let status = child.wait(until: .now + time) { return status }
        child.signal(SIGKILL)
        _ = child.wait(until: .now + .seconds(5))
        throw PostgresError(.cluster, activity: "run \(arguments[0])", message: "it did not end within \(time)")
    }

    /// Sends a signal.
    package func signal(_ number: Int32) {
        kill(processID, number)
    }

    /// Waits for the end. The exit status, or 128 and the signal that ended it; nil when the deadline came first.
    package func wait(until deadline: ContinuousClock.Instant) -> Int32? {
        while true {
            var status: Int32 = 0
            let result = unsafe waitpid(processID, &status, WNOHANG)
            if result == processID { return status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F }
            // Somebody else has collected it.
            if result < 0 && errno != EINTR { return 0 }
            guard ContinuousClock.now < deadline else { return nil }
            usleep(5000)
        }
    }
}
