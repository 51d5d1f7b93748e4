internal import CLinux
internal import Glibc
internal import OpenSSL

// TCP and TLS.
extension Connection {
    func start() {
        wake(at: phaseDeadline)
        let id = id
        let inbox = loop.inbox
        loop.resolver.resolve(pool.configuration.host, port: pool.configuration.port) { answer in
            // A loop that has ended needs no answer.
            _ = inbox.post(.resolved(connection: id, answer))
        }
    }

    func resolved(_ answer: ResolverAnswer) {
        guard state.isInTCP, addresses.isEmpty else { return }
        switch answer {
        case .failed(let text):
            fail(.nameNotResolved, "the name \(pool.configuration.host) could not be resolved: \(text)")
        case .addresses(let found):
            // Each connection begins with another address, so that all of them carry load and one dead one costs little.
            let first = pool.takeRotation() % found.count
            addresses = Array(found[first...] + found[..<first])
            tryAddress()
        }
    }

    // Begins to connect to the current address; goes on to the next one as long as they fail at once.
    private func tryAddress() {
        while addressIndex < addresses.count {
            let address = addresses[addressIndex]
            if let failure = connect(to: address) {
                trouble = "\(address.description): \(errorText(failure))"
                nextAddress()
                continue
            }
            // No address may use up the time of the others.
            let share = pool.configuration.connectTimeout / min(addresses.count, 3)
            addressDeadline = addresses.count - addressIndex > 1 ? loop.now + share : .never
            wake(at: addressDeadline)
            return
        }
        perform(state.failed(.connectFailed))
    }

    private func connect(to address: SocketAddress) -> Int32? {
        descriptor = socket(
            address.family,
            Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue),
            0
        )
        guard descriptor >= 0 else { return errno }
        var on: Int32 = 1
        unsafe setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        let code = unsafe address.withAddress { unsafe Glibc.connect(descriptor, $0, $1) }
        if code != 0, errno != EINPROGRESS { return errno }
        return watch(EPOLLOUT.rawValue)
    }

    private func nextAddress() {
        closeSocket()
        addressIndex += 1
    }

    func closeSocket() {
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
        interest = 0
    }

    // The current address took too long.
    func addressTimedOut() {
        trouble = "\(addresses[addressIndex].description): no answer"
        nextAddress()
        tryAddress()
    }

    // MARK: Readiness

    func socketReady(_ events: UInt32) {
        if state.isInTCP {
            finishConnecting()
        } else if state.isInTLS {
            continueHandshake()
        } else if state.hasSession {
            if events & EPOLLOUT.rawValue != 0 {
                isWriteBlocked = false
                isReadBlockedByWrite = false
            }
            receive()
        }
    }

    private func finishConnecting() {
        var code: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size)
        guard code == 0 else {
            trouble = "\(addresses[addressIndex].description): \(errorText(code))"
            nextAddress()
            tryAddress()
            return
        }
        addressDeadline = .never
        phaseDeadline = loop.now + pool.configuration.handshakeTimeout
        wake(at: phaseDeadline)
        trouble = nil
        perform(state.tcpConnected())
    }

    func startHandshake() {
        do {
            tls = try TLSStream(
                context: pool.configuration.tls,
                socket: descriptor,
                host: pool.configuration.host,
                resuming: pool.tlsSession
            )
            continueHandshake()
        } catch {
            fail(.tlsFailed, error.message)
        }
    }

    private func continueHandshake() {
        guard let tls else { return }
        switch tls.handshake() {
        case .done: perform(state.tlsFinished())
        case .wantRead: setInterest(EPOLLIN.rawValue)
        case .wantWrite: setInterest(EPOLLIN.rawValue | EPOLLOUT.rawValue)
        case .closed: fail(.tlsFailed, "the peer hung up during the TLS handshake")
        case .failed(let error):
            pool.tlsSession = nil
            fail(.tlsFailed, error.message)
        }
    }

    func startSession() {
        lastRead = loop.now
        let made = Session(
            output: output,
            streams: streams,
            initialStreams: pool.configuration.initialStreams,
            now: loop.now
        )
        guard let made else {
            return fail(.connectFailed, "no memory for an HTTP/2 session")
        }
        session = made
        setInterest(EPOLLIN.rawValue)
        pump()
        // The peer's SETTINGS may have come with its last handshake bytes.
        receive()
    }

    // MARK: Reading and writing

    // Reads until the socket is empty, but not for ever: the others want their turn.
    func receive() {
        // What is read may free streams, open windows or bring answers to send, whoever asked for the read.
        pool.isDirty = true
        var rounds = 0
        while let tls, state.hasSession, !isReadBlockedByWrite {
            if rounds == 16 { return loop.readAgain(self) }
            rounds += 1
            switch loop.input.read({ tls.read(into: &$0) }) {
            case .done(let count):
                lastRead = loop.now
                unsafe consume(UnsafeBufferPointer(start: loop.input.base, count: count))
            case .wantRead:
                return
            case .wantWrite:
                isReadBlockedByWrite = true
                setInterest(EPOLLIN.rawValue | EPOLLOUT.rawValue)
            case .closed:
                fail(.connectionLost, "the peer closed the connection")
            case .failed(let error):
                fail(.connectionLost, error.message)
            }
        }
    }

    // One write of what is gathered. What went wrong if nothing more can be written.
    @discardableResult
    func writeOnce() -> String? {
        guard let tls, !output.isEmpty, !isWriteBlocked else { return nil }
        var failure: String?
        output.write { bytes in
            switch tls.write(bytes) {
            case .done(let count): return count
            case .wantWrite: isWriteBlocked = true
            case .wantRead: break
            case .closed: failure = "the peer closed the connection"
            case .failed(let error): failure = error.message
            }
            return 0
        }
        if let failure { return failure }
        setInterest(EPOLLIN.rawValue | (isWriteBlocked || isReadBlockedByWrite ? EPOLLOUT.rawValue : 0))
        return nil
    }

    // Nothing more can be written. What the peer said before it hung up is still there: answers, and the GOAWAY that
    // tells what it has not processed.
    func endAfterReading(_ failure: String) {
        isWriteBlocked = true
        for _ in 0..<Connection.lastReads {
            guard let tls, state.hasSession, case .done(let count) = loop.input.read({ tls.read(into: &$0) }) else {
                break
            }
            unsafe consume(UnsafeBufferPointer(start: loop.input.base, count: count))
        }
        fail(.connectionLost, failure)
    }

    // More than a socket's buffer holds.
    private static let lastReads = 1024

    // MARK: epoll

    private func watch(_ events: UInt32) -> Int32? {
        interest = events
        return loop.watch(descriptor, events, connection: id)
    }

    func setInterest(_ events: UInt32) {
        guard descriptor >= 0, events != interest else { return }
        interest = events
        if let failure = loop.rewatch(descriptor, events, connection: id) {
            fail(.connectionLost, "epoll refused the socket: \(errorText(failure))")
        }
    }
}
