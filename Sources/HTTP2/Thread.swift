internal import CLinux
internal import Glibc
internal import Synchronization

// Threads of our own: the loop and the resolver block, which the cooperative pool must not.
enum Thread {
    private final class Body {
        let name: String
        let run: @Sendable () -> Void

        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    // Starts a detached thread; 0 or an errno.
    static func start(name: String, _ run: @escaping @Sendable () -> Void) -> Int32 {
        var thread: pthread_t = 0
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        defer { unsafe pthread_attr_destroy(&attributes) }
        let body = unsafe Unmanaged.passRetained(Body(name: name, run: run))
        let code = unsafe pthread_create(&thread, &attributes, runBody, body.toOpaque())
        if code != 0 { unsafe body.release() }
        return code
    }

    private static let runBody: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
        guard let context = unsafe context else { return nil }
        let body = unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
        // The kernel keeps 15 characters. A write to a closed socket is an error to handle, not a signal that kills.
        unsafe pthread_setname_np(pthread_self(), String(body.name.prefix(15)))
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
        body.run()
        return nil
    }
}

// A POSIX semaphore at an address that stays.
@safe
final class Semaphore: @unchecked Sendable {
    // sem_post and sem_wait are made for many threads; the memory is freed when nobody refers to us any more.
    private let handle: UnsafeMutablePointer<sem_t>

    init() {
        unsafe handle = .allocate(capacity: 1)
        unsafe handle.initialize(to: sem_t())
        unsafe sem_init(handle, 0, 0)
    }

    deinit {
        unsafe sem_destroy(handle)
        unsafe handle.deallocate()
    }

    func signal() {
        unsafe sem_post(handle)
    }

    func wait() {
        while unsafe sem_wait(handle) != 0 && errno == EINTR {}
    }
}
