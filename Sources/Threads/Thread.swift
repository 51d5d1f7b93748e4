internal import CLinux
internal import Glibc

/// Threads of our own, for what blocks: the cooperative pool must not.
package enum Thread {
    private final class Body {
        let name: String
        let run: @Sendable () -> Void

        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// Runs `body` on a new detached thread, where a write to a closed socket is an error and no signal.
    ///
    /// - Parameter name: what `top -H` shows, at most 15 characters of it.
    /// - Returns: 0, or the errno that says why there is no thread (the process has as many as it may).
    package static func start(name: String, _ body: @escaping @Sendable () -> Void) -> Int32 {
        var thread: pthread_t = 0
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        defer { unsafe pthread_attr_destroy(&attributes) }
        let body = unsafe Unmanaged.passRetained(Body(name: name, run: body))
        let code = unsafe pthread_create(&thread, &attributes, runBody, body.toOpaque())
        if code != 0 { unsafe body.release() }
        return code
    }

    private static let runBody: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
        guard let context = unsafe context else { return nil }
        let body = unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
        unsafe pthread_setname_np(pthread_self(), String(body.name.prefix(15)))
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
        body.run()
        return nil
    }
}
