import CPostgres
import Glibc

/// Threads that end by themselves.
enum Thread {
    /// Runs `body` on a new thread. Fails only when the process has no room for another one, which ends it.
    static func start(name: String, _ body: @escaping @Sendable () -> Void) {
        let start = ThreadStart(name: name, body: body)
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        var thread = pthread_t()
        let result = unsafe pthread_create(&thread, &attributes, runThread, Unmanaged.passRetained(start).toOpaque())
        unsafe pthread_attr_destroy(&attributes)
        precondition(result == 0, "no thread could be started (error \(result)): raise the limit of threads")
    }
}

/// Carries the body to the new thread.
private final class ThreadStart: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = name
        self.body = body
    }
}

/// The first function of each thread: takes over the reference that `Thread.start` made.
private func runThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context = unsafe context else { return nil }
    let start = unsafe Unmanaged<ThreadStart>.fromOpaque(context).takeRetainedValue()
    unsafe pthread_setname_np(pthread_self(), String(decoding: start.name.utf8.prefix(15), as: UTF8.self))
    start.body()
    return nil
}

/// A counting semaphore of the C library.
@safe final class Semaphore: @unchecked Sendable {
    // The C library protects the value; the memory lives as long as this object.
    private let semaphore: UnsafeMutablePointer<sem_t>

    init() {
        unsafe semaphore = .allocate(capacity: 1)
        unsafe sem_init(semaphore, 0, 0)
    }

    deinit {
        unsafe sem_destroy(semaphore)
        unsafe semaphore.deallocate()
    }

    func signal() {
        unsafe sem_post(semaphore)
    }

    func wait() {
        while unsafe sem_wait(semaphore) != 0 && errno == EINTR {}
    }
}
