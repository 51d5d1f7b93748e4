import CLinux
import Glibc
import Synchronization

/// A bound and listening socket of one role.
struct Listener: Sendable {
    let role: ProviderRole
    let descriptor: Int32
    let port: Int

    /// Binds an IPv4 address; port 0 picks a free one.
    init(role: ProviderRole, address: String, port: Int) throws(SimulatorError) {
        let place = "\(address):\(port) for \(role.rawValue)"
        guard let number = UInt16(exactly: port) else {
            throw SimulatorError(code: .address, context: "\(port) is not a port (0 to 65535)")
        }
        var target = sockaddr_in()
        target.sin_family = sa_family_t(AF_INET)
        target.sin_port = number.bigEndian
        guard unsafe inet_pton(AF_INET, address, &target.sin_addr) == 1 else {
            throw SimulatorError(
                code: .address,
                context: "\(address) is not an IPv4 address; use for example 127.0.0.1"
            )
        }
        let flags = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let socket = Glibc.socket(AF_INET, flags, 0)
        guard socket >= 0 else { throw .system(.socket, "making a socket") }
        var one: Int32 = 1
        unsafe setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = unsafe withUnsafePointer(to: &target) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(socket, $0, size) == 0 }
        }
        guard isBound, listen(socket, 1024) == 0, let bound = Self.port(of: socket) else {
            let advice = "choose another --base-port, or leave it out"
            let error = SimulatorError.system(.socket, "listening on \(place); \(advice)")
            Glibc.close(socket)
            throw error
        }
        self.role = role
        descriptor = socket
        self.port = bound
    }

    private static func port(of socket: Int32) -> Int? {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isKnown = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe getsockname(socket, $0, &size) == 0
            }
        }
        return isKnown ? Int(UInt16(bigEndian: address.sin_port)) : nil
    }

    func close() { Glibc.close(descriptor) }

    /// The next waiting connection, non-blocking; nil when there is none.
    func accept() -> Int32? {
        let socket = Glibc.accept(descriptor, nil, nil)
        guard socket >= 0 else { return nil }
        guard fcntl(socket, F_SETFL, O_NONBLOCK) == 0, fcntl(socket, F_SETFD, FD_CLOEXEC) == 0 else {
            Glibc.close(socket)
            return nil
        }
        return socket
    }

    /// Closes a socket with a TCP reset.
    static func reset(_ socket: Int32) {
        var option = linger(l_onoff: 1, l_linger: 0)
        unsafe setsockopt(socket, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        Glibc.close(socket)
    }
}

/// Wakes the loop from other threads, and tells it to stop.
final class Wakeup: Sendable {
    let descriptor: Int32
    private let stopped = Atomic<Bool>(false)

    init() throws(SimulatorError) {
        descriptor = eventfd(0, Int32(EFD_NONBLOCK) | Int32(EFD_CLOEXEC))
        guard descriptor >= 0 else { throw .system(.socket, "making an event descriptor") }
    }

    deinit { close(descriptor) }

    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    func stop() {
        stopped.store(true, ordering: .releasing)
        wake()
    }

    func wake() {
        _ = eventfd_write(descriptor, 1)
    }

    /// Waits for a wake. Only for hand-overs that are sure to come.
    func waitForWake() {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while unsafe poll(&entry, 1, -1) < 0, errno == EINTR {}
    }

    func drain() {
        var value: eventfd_t = 0
        _ = unsafe eventfd_read(descriptor, &value)
    }
}
