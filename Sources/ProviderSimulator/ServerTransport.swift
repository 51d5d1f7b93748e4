import Glibc

/// What a connection's bytes go through: TLS, or nothing in runs without it.
enum ServerTransport {
    case tls(TLSServerStream)
    /// The socket itself.
    case plain(Int32)

    /// Goes on with the handshake; `moved` means that it is done.
    func handshake() -> TLSResult {
        switch self {
        case .tls(let stream): stream.handshake()
        case .plain: .moved(0)
        }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> TLSResult {
        switch self {
        case .tls(let stream): return unsafe stream.read(into: buffer)
        case .plain(let socket):
            let count = unsafe recv(socket, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .moved(count) }
            return count < 0 && errno == EAGAIN ? .wantsRead : .ended
        }
    }

    func write(_ buffer: UnsafeRawBufferPointer) -> TLSResult {
        switch self {
        case .tls(let stream): return unsafe stream.write(buffer)
        case .plain(let socket):
            let count = unsafe send(socket, buffer.baseAddress, buffer.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return .moved(count) }
            return errno == EAGAIN ? .wantsWrite : .ended
        }
    }

    /// Says goodbye, without waiting for the peer's.
    func shutDown() {
        if case .tls(let stream) = self { stream.shutDown() }
    }
}
