import Glibc

/// What a crash may print.
package enum CrashReport {
    /// Leaves a crash to the kernel, with the one line that says why, unless `SWIFT_BACKTRACE` asks for more.
    ///
    /// The Swift runtime's own report shows the memory that registers point to: tokens, payloads and keys would stand in the
    /// log of whoever runs us (promise 12). Call it first of all.
    package static func keepMemoryOut() {
        guard unsafe getenv("SWIFT_BACKTRACE") == nil else { return }
        for number in [SIGQUIT, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP] {
            signal(number, SIG_DFL)
        }
    }
}
