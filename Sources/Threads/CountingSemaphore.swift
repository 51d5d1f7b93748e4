internal import CLinux
internal import Glibc

/// A counting semaphore: an eventfd, since a descriptor can be shared under the compiler's eyes and a `sem_t` cannot.
package final class CountingSemaphore: Sendable {
    private let descriptor: Int32

    /// Makes one at zero; nil when there is no descriptor for it, and `errno` says why.
    package init?() {
        descriptor = eventfd(0, Int32(EFD_SEMAPHORE | EFD_CLOEXEC))
        if descriptor < 0 { return nil }
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Adds one, and wakes a thread that waits.
    package func signal() {
        var one: UInt64 = 1
        while unsafe write(descriptor, &one, 8) != 8 { requireInterrupted() }
    }

    /// Takes one; blocks the thread until there is one.
    package func wait() {
        var one: UInt64 = 0
        while unsafe read(descriptor, &one, 8) != 8 { requireInterrupted() }
    }

    private func requireInterrupted() {
        precondition(errno == EINTR, "an eventfd failed (errno \(errno)): somebody closed its descriptor")
    }
}
