internal import COpenSSL
internal import CShims
internal import Glibc

/// What a TLS call came to. Nothing here blocks: the caller waits for the socket and calls again.
package enum TLSResult: Sendable, Equatable {
    /// So many bytes were read or written (0 for a finished handshake).
    case done(Int)
    /// Call again when the socket is readable.
    case wantRead
    /// Call again when the socket is writable.
    case wantWrite
    /// The peer closed the connection.
    case closed
    /// The connection is unusable.
    case failed(OpenSSLError)
}

/// A TLS connection over a non-blocking socket that someone else owns and closes.
///
/// Not `Sendable`: it belongs to one event loop.
@safe
package final class TLSStream {
    private let handle: OpaquePointer
    private let host: String
    private let isClient: Bool

    /// Makes the client's side: sends `host` as SNI and checks the certificate against it (a name or an IP address).
    ///
    /// - Throws: `OpenSSLError` when the library refuses the host name or the socket.
    package init(
        context: TLSContext,
        socket: Int32,
        host: String,
        resuming session: TLSSession? = nil
    ) throws(OpenSSLError) {
        unsafe handle = try TLSStream.makeHandle(context, socket)
        self.host = host
        isClient = true
        unsafe SSL_set_connect_state(handle)
        let isAddress = unsafe X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(handle), host) == 1
        OpenSSLError.clearQueue()
        if !isAddress {
            let named = unsafe SSL_set1_host(handle, host) == 1 && cshims_ssl_set_tlsext_host_name(handle, host) == 1
            if !named { throw .fromQueue(.libraryFailed, "\(host) is no host name that TLS can check") }
            unsafe SSL_set_hostflags(handle, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        }
        if let session { _ = unsafe SSL_set_session(handle, session.handle) }
    }

    /// Makes the server's side.
    package init(serving context: TLSContext, socket: Int32) throws(OpenSSLError) {
        unsafe handle = try TLSStream.makeHandle(context, socket)
        host = ""
        isClient = false
        unsafe SSL_set_accept_state(handle)
    }

    deinit {
        unsafe SSL_free(handle)
    }

    /// Goes on with the handshake; `.done(0)` when it is over, the peer is verified and `h2` was agreed.
    package func handshake() -> TLSResult {
        OpenSSLError.clearQueue()
        let code = unsafe SSL_do_handshake(handle)
        guard code == 1 else { return handshakeResult(code) }
        guard agreedProtocol == "h2" else {
            return .failed(
                OpenSSLError(
                    .tlsFailed,
                    "\(host) does not speak HTTP/2: it did not choose h2 by ALPN. Check the host and port."
                )
            )
        }
        return .done(0)
    }

    /// Reads decrypted bytes, at most one record's worth; call until it wants to read.
    package func read(into bytes: inout MutableSpan<UInt8>) -> TLSResult {
        OpenSSLError.clearQueue()
        var count = 0
        let code = unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            unsafe SSL_read_ex(handle, buffer.baseAddress, buffer.count, &count)
        }
        return code == 1 ? .done(count) : result(code)
    }

    /// Encrypts and writes bytes; it may take only the first part of them.
    ///
    /// Each call costs a record and a system call (about 6 times the CPU per request when made for each frame), so
    /// offer 16 KiB at a time where there is that much.
    package func write(_ bytes: Span<UInt8>) -> TLSResult {
        OpenSSLError.clearQueue()
        var count = 0
        let code = unsafe bytes.withUnsafeBufferPointer { buffer in
            unsafe SSL_write_ex(handle, buffer.baseAddress, buffer.count, &count)
        }
        return code == 1 ? .done(count) : result(code)
    }

    /// Says goodbye as far as the socket takes it at once; never waits for the peer's goodbye.
    package func shutdown() {
        OpenSSLError.clearQueue()
        _ = unsafe SSL_shutdown(handle)
        OpenSSLError.clearQueue()
    }

    /// The protocol that ALPN agreed on, or empty.
    package var agreedProtocol: String {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        unsafe SSL_get0_alpn_selected(handle, &name, &length)
        guard let name = unsafe name else { return "" }
        return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }

    /// True when the handshake was shortened by an earlier session.
    package var wasResumed: Bool { unsafe SSL_session_reused(handle) == 1 }

    /// What a later connection to the same host can resume, once the peer has sent a ticket.
    package func resumableSession() -> TLSSession? {
        guard let session = unsafe SSL_get1_session(handle) else { return nil }
        guard unsafe SSL_SESSION_is_resumable(session) == 1 else {
            unsafe SSL_SESSION_free(session)
            return nil
        }
        return unsafe TLSSession(handle: session)
    }

    private static func makeHandle(_ context: TLSContext, _ socket: Int32) throws(OpenSSLError) -> OpaquePointer {
        OpenSSLError.clearQueue()
        guard let handle = unsafe SSL_new(context.handle), unsafe SSL_set_fd(handle, socket) == 1 else {
            throw .fromQueue(.libraryFailed, "A TLS stream could not be made")
        }
        return unsafe handle
    }

    private func result(_ code: Int32) -> TLSResult {
        let failure = errno
        switch unsafe SSL_get_error(handle, code) {
        case SSL_ERROR_WANT_READ: return .wantRead
        case SSL_ERROR_WANT_WRITE: return .wantWrite
        case SSL_ERROR_ZERO_RETURN: return .closed
        case SSL_ERROR_SYSCALL:
            OpenSSLError.clearQueue()
            if failure == 0 || failure == ECONNRESET || failure == EPIPE { return .closed }
            return .failed(OpenSSLError(.tlsFailed, "The socket failed: \(unsafe String(cString: strerror(failure)))"))
        default: return .failed(.fromQueue(.tlsFailed, "TLS failed"))
        }
    }

    private func handshakeResult(_ code: Int32) -> TLSResult {
        let verdict = unsafe SSL_get_verify_result(handle)
        if isClient, verdict != Int(X509_V_OK) {
            OpenSSLError.clearQueue()
            let problem = unsafe String(cString: X509_verify_cert_error_string(verdict))
            let advice =
                "Nothing was sent. If this host is meant to be trusted, add its root certificate with PEAL_CA_FILE."
            return .failed(
                OpenSSLError(.certificateRefused, "The certificate of \(host) was refused: \(problem). \(advice)")
            )
        }
        switch result(code) {
        case .failed(let error):
            return .failed(OpenSSLError(error.code, "The TLS handshake with \(host) failed. \(error.message)"))
        case let other: return other
        }
    }
}

/// A finished connection's session, with which the next one to the same host saves half of the handshake.
@safe
package final class TLSSession {
    let handle: OpaquePointer

    init(handle: OpaquePointer) {
        unsafe self.handle = unsafe handle
    }

    deinit {
        unsafe SSL_SESSION_free(handle)
    }
}
