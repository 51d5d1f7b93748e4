import COpenSSL
import CShims

/// The server side of TLS: certificate, key, TLS 1.2 or later, ALPN `h2` only.
@safe
final class ServerTLS {
    private let context: OpaquePointer

    /// - Parameter fault: what is wrong with each handshake; nil for nothing.
    init(certificate: TestCertificate, fault: HandshakeFault? = nil) throws(SimulatorError) {
        guard let context = unsafe SSL_CTX_new(TLS_server_method()) else {
            throw cryptoError(.certificate, "making a TLS context")
        }
        unsafe self.context = context
        let key = try CryptoKey(pem: certificate.serverKeyPEM, name: "the server key")
        var text = Array(certificate.serverPEM(fault).utf8)
        let loaded = unsafe text.withUnsafeMutableBytes { bytes -> Bool in
            guard let bio = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return false }
            defer { unsafe BIO_free(bio) }
            guard let parsed = unsafe PEM_read_bio_X509(bio, nil, nil, nil) else { return false }
            defer { unsafe X509_free(parsed) }
            return unsafe SSL_CTX_use_certificate(context, parsed) == 1
        }
        guard loaded, unsafe SSL_CTX_use_PrivateKey(context, key.pointer) == 1,
            unsafe cshims_ssl_ctx_set_min_proto_version(context, TLS1_2_VERSION) == 1
        else { throw cryptoError(.certificate, "loading the server certificate") }
        // Macros in C: set the mode, and let one read() fetch several records.
        let mode = Int(SSL_MODE_ENABLE_PARTIAL_WRITE) | Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER)
        unsafe SSL_CTX_ctrl(context, SSL_CTRL_MODE, mode, nil)
        unsafe SSL_CTX_ctrl(context, SSL_CTRL_SET_READ_AHEAD, 1, nil)
        unsafe SSL_CTX_set_default_read_buffer_len(context, 65_536)
        switch fault {
        case .noALPN: break
        case .refusedALPN: unsafe SSL_CTX_set_alpn_select_cb(context, refuseProtocol, nil)
        case .clientCertificate:
            unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
            fallthrough
        case .expiredCertificate, .otherHost, nil: unsafe SSL_CTX_set_alpn_select_cb(context, selectHTTP2, nil)
        }
    }

    deinit { unsafe SSL_CTX_free(context) }

    /// A TLS stream over an accepted socket, which it does not own.
    func makeStream(socket: Int32) -> TLSServerStream? {
        guard let pointer = unsafe SSL_new(context) else { return nil }
        guard unsafe SSL_set_fd(pointer, socket) == 1 else {
            unsafe SSL_free(pointer)
            return nil
        }
        unsafe SSL_set_accept_state(pointer)
        return unsafe TLSServerStream(pointer)
    }
}

/// Refuses every protocol: the alert is `no_application_protocol`.
private func refuseProtocol(
    _: OpaquePointer?,
    out _: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    outLength _: UnsafeMutablePointer<UInt8>?,
    offered _: UnsafePointer<UInt8>?,
    offeredLength _: UInt32,
    _: UnsafeMutableRawPointer?
) -> Int32 {
    SSL_TLSEXT_ERR_ALERT_FATAL
}

/// Takes `h2` if the client offers it and refuses the handshake otherwise.
private func selectHTTP2(
    _: OpaquePointer?,
    out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    outLength: UnsafeMutablePointer<UInt8>?,
    offered: UnsafePointer<UInt8>?,
    offeredLength: UInt32,
    _: UnsafeMutableRawPointer?
) -> Int32 {
    guard let offered = unsafe offered, let out = unsafe out, let outLength = unsafe outLength else {
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
    var position = 0
    while position < Int(offeredLength) {
        let length = unsafe Int(offered[position])
        let isH2 =
            unsafe length == 2 && position + 2 < Int(offeredLength)
            && offered[position + 1] == 0x68 && offered[position + 2] == 0x32
        if isH2 {
            unsafe out.pointee = offered + position + 1
            unsafe outLength.pointee = 2
            return SSL_TLSEXT_ERR_OK
        }
        position += 1 + length
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL
}

/// What a TLS operation came to; bytes moved, or what it waits for.
enum TLSResult: Equatable {
    case moved(Int)
    case wantsRead
    case wantsWrite
    /// Closed by the peer or broken.
    case ended
}

/// One TLS connection, server side, on a non-blocking socket.
@safe
final class TLSServerStream {
    private let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { unsafe self.pointer = pointer }

    deinit { unsafe SSL_free(pointer) }

    /// Goes on with the handshake; `moved` means that it is done.
    func handshake() -> TLSResult {
        ERR_clear_error()
        let result = unsafe SSL_do_handshake(pointer)
        return result == 1 ? .moved(0) : classify(result)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> TLSResult {
        ERR_clear_error()
        let count = unsafe SSL_read(pointer, buffer.baseAddress, Int32(buffer.count))
        return count > 0 ? .moved(Int(count)) : classify(count)
    }

    func write(_ buffer: UnsafeRawBufferPointer) -> TLSResult {
        ERR_clear_error()
        let count = unsafe SSL_write(pointer, buffer.baseAddress, Int32(buffer.count))
        return count > 0 ? .moved(Int(count)) : classify(count)
    }

    /// True if bytes that were already read from the socket wait inside OpenSSL.
    var hasPending: Bool { unsafe SSL_has_pending(pointer) == 1 }

    /// Sends the close notification, without waiting for the peer's.
    func shutDown() {
        ERR_clear_error()
        unsafe SSL_shutdown(pointer)
    }

    private func classify(_ result: Int32) -> TLSResult {
        switch unsafe SSL_get_error(pointer, result) {
        case SSL_ERROR_WANT_READ: .wantsRead
        case SSL_ERROR_WANT_WRITE: .wantsWrite
        default: .ended
        }
    }
}
