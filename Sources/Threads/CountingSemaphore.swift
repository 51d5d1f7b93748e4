internal import Glibc

/// A counting semaphore of the C library, at an address that stays.
@safe
package final class CountingSemaphore: @unchecked Sendable {
    // sem_post and sem_wait are made for many threads; the memory is freed when nobody refers to us any more.
    private let handle: UnsafeMutablePointer<sem_t>

    /// Makes one at zero.
    package init() {
        unsafe handle = .allocate(capacity: 1)
        unsafe handle.initialize(to: sem_t())
        unsafe sem_init(handle, 0, 0)
    }

    deinit {
        unsafe sem_destroy(handle)
        unsafe handle.deallocate()
    }

    /// Adds one, and wakes a thread that waits.
    package func signal() {
        unsafe sem_post(handle)
    }

    /// Takes one; blocks the thread until there is one.
    package func wait() {
        while unsafe sem_wait(handle) != 0 && errno == EINTR {}
    }
}
