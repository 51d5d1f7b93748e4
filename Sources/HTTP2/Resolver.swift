internal import Glibc
internal import Synchronization
internal import Threads

// An address as the kernel takes it.
struct SocketAddress: Sendable, Equatable {
    let family: Int32
    let bytes: [UInt8]

    // Address and port as people write them.
    var description: String {
        var host = [CChar](repeating: 0, count: 1025)
        var port = [CChar](repeating: 0, count: 32)
        let code = unsafe withAddress { address, length in
            unsafe getnameinfo(address, length, &host, 1025, &port, 32, NI_NUMERICHOST | NI_NUMERICSERV)
        }
        guard code == 0 else { return "an unknown address" }
        return family == AF_INET6 ? "[\(text(host))]:\(text(port))" : "\(text(host)):\(text(port))"
    }

    func withAddress<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        unsafe bytes.withUnsafeBytes { raw in
            // getaddrinfo made these bytes, so they hold a whole address.
            let address = unsafe raw.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: sockaddr.self)
            return unsafe body(address, socklen_t(raw.count))
        }
    }

    private func text(_ characters: [CChar]) -> String {
        String(decoding: characters.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

enum ResolverAnswer: Sendable {
    case addresses([SocketAddress])
    case failed(String)
}

/// How the names of hosts become addresses.
package struct NameLookUp: Sendable {
    let look: @Sendable (_ host: String, _ port: UInt16) -> ResolverAnswer

    /// As this machine is set up.
    package static let system = NameLookUp { $0 }

    /// Looks another name up in place of a host's; nil for a host that has no address. May block.
    package init(_ name: @escaping @Sendable (_ host: String) -> String?) {
        look = { host, port in
            name(host).map { Resolver.lookUp($0, port: port) } ?? .failed("the name has no address")
        }
    }
}

// Looks names up on threads of its own, since getaddrinfo may block for many seconds. Threads end with the resolver.
final class Resolver: Sendable {
    private struct Question: Sendable {
        let host: String
        let port: UInt16
        let reply: @Sendable (ResolverAnswer) -> Void
    }

    // What the threads share. Apart from the resolver itself, so that a thread in a look-up does not keep that alive.
    private final class Desk: Sendable {
        let state = Mutex(State())
        let wake: CountingSemaphore
        let names: NameLookUp

        init?(_ names: NameLookUp) {
            guard let wake = CountingSemaphore() else { return nil }
            self.wake = wake
            self.names = names
        }
    }

    private struct State {
        var questions: [Question] = []
        var threads = 0
        var idle = 0
        var isClosed = false
    }

    // One slow name must not hold up the others; more than this many slow ones at once may (a guess).
    private static let threadLimit = 4
    private let desk: Desk

    // Nil when there is no descriptor for it, and `errno` says why.
    init?(_ names: NameLookUp) {
        guard let desk = Desk(names) else { return nil }
        self.desk = desk
    }

    func resolve(_ host: String, port: UInt16, reply: @escaping @Sendable (ResolverAnswer) -> Void) {
        let needsThread = desk.state.withLock { state in
            state.questions.append(Question(host: host, port: port, reply: reply))
            let isNeeded = state.questions.count > state.idle && state.threads < Resolver.threadLimit
            if isNeeded { state.threads += 1 }
            return isNeeded
        }
        if needsThread {
            let desk = desk
            let code = Thread.start(name: "peal-resolver") { Resolver.answerQuestions(of: desk) }
            if code != 0 { desk.state.withLock { $0.threads -= 1 } }
        }
        desk.wake.signal()
    }

    deinit {
        let threads = desk.state.withLock { state in
            state.isClosed = true
            state.questions = []
            return state.threads
        }
        for _ in 0..<threads { desk.wake.signal() }
    }

    private static func answerQuestions(of desk: Desk) {
        while true {
            let question: Question? = desk.state.withLock { state in
                if state.questions.isEmpty {
                    state.idle += 1
                    return nil
                }
                return state.questions.removeFirst()
            }
            if let question {
                question.reply(desk.names.look(question.host, question.port))
                continue
            }
            desk.wake.wait()
            let isClosed = desk.state.withLock { state in
                state.idle -= 1
                return state.isClosed
            }
            if isClosed { return }
        }
    }

    // All stream addresses of a name, in the order of RFC 6724.
    static func lookUp(_ host: String, port: UInt16) -> ResolverAnswer {
        var hints = unsafe addrinfo()
        unsafe hints.ai_family = AF_UNSPEC
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        unsafe hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(host, String(port), &hints, &list)
        guard code == 0 else { return .failed(unsafe String(cString: gai_strerror(code))) }
        defer { unsafe freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = unsafe list
        while let entry = unsafe next?.pointee {
            if let address = unsafe entry.ai_addr {
                let bytes = unsafe Array(UnsafeRawBufferPointer(start: address, count: Int(entry.ai_addrlen)))
                addresses.append(SocketAddress(family: unsafe entry.ai_family, bytes: bytes))
            }
            unsafe next = entry.ai_next
        }
        return addresses.isEmpty ? .failed("the name has no address") : .addresses(addresses)
    }
}
