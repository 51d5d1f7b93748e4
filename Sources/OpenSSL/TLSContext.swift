internal import COpenSSL
internal import CShims

/// What TLS connections of one kind share: protocol versions, trusted roots, own certificate, ALPN `h2`.
///
/// TLS 1.2 is the lowest version. A client always verifies the peer's certificate and host name: there is no switch
/// that turns this off, only a file that adds roots.
@safe
package final class TLSContext: @unchecked Sendable {
    // An SSL_CTX counts its references atomically and is never changed after init, so any thread may make streams of it.
    let handle: OpaquePointer
    let isClient: Bool

    /// Makes a client context that trusts the system's roots and those of `caFile`.
    ///
    /// - Parameter caFile: a PEM file of further trusted roots, as `PEAL_CA_FILE` names it.
    /// - Throws: `OpenSSLError` when the file cannot be read or holds no certificate.
    package init(trustingAlso caFile: String? = nil) throws(OpenSSLError) {
        unsafe handle = try TLSContext.makeHandle(server: false)
        isClient = true
        unsafe SSL_CTX_set_verify(handle, SSL_VERIFY_PEER, nil)
        if unsafe SSL_CTX_set_default_verify_paths(handle) != 1 {
            throw .fromQueue(.libraryFailed, "The system's certificate store could not be loaded")
        }
        if let caFile, unsafe SSL_CTX_load_verify_locations(handle, caFile, nil) != 1 {
            let advice = "it must be a readable PEM file with at least one certificate"
            throw .fromQueue(.unusableKey, "The CA file \(caFile) (PEAL_CA_FILE) could not be loaded, \(advice)")
        }
        // Resumption is by hand (TLSStream.resumableSession): one pool reuses its own last session.
        _ = unsafe cshims_ssl_ctx_set_session_cache_mode(
            handle,
            Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL)
        )
        let h2: [UInt8] = [2, 0x68, 0x32]
        // Unlike its neighbours this function returns 0 for success.
        if unsafe SSL_CTX_set_alpn_protos(handle, h2, UInt32(h2.count)) != 0 {
            throw .fromQueue(.libraryFailed, "ALPN could not be set")
        }
    }

    /// Makes a server context with a certificate and its private key, both PEM; it accepts ALPN `h2` only.
    ///
    /// - Throws: `OpenSSLError` when either text is unusable or the two do not belong together.
    package init(serverCertificate: [UInt8], key: [UInt8]) throws(OpenSSLError) {
        unsafe handle = try TLSContext.makeHandle(server: true)
        isClient = false
        let certificate = try unsafe PEMText.readCertificate(serverCertificate)
        defer { unsafe X509_free(certificate) }
        let pair = try PrivateKeyHandle(pem: key, purpose: "the server's TLS key")
        if unsafe SSL_CTX_use_certificate(handle, certificate) != 1 || SSL_CTX_use_PrivateKey(handle, pair.key) != 1 {
            throw .fromQueue(.unusableKey, "The server's certificate and key do not fit together")
        }
        unsafe SSL_CTX_set_alpn_select_cb(handle, selectHTTP2, nil)
    }

    deinit {
        unsafe SSL_CTX_free(handle)
    }

    private static func makeHandle(server: Bool) throws(OpenSSLError) -> OpaquePointer {
        OpenSSLError.clearQueue()
        guard let handle = unsafe SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()) else {
            throw .fromQueue(.libraryFailed, "A TLS context could not be made")
        }
        _ = unsafe cshims_ssl_ctx_set_min_proto_version(handle, TLS1_2_VERSION)
        // A write may take part of the bytes, and the rest may be offered from another address.
        _ = unsafe cshims_ssl_ctx_set_mode(
            handle,
            Int(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER)
        )
        // One read of the socket takes several records. HTTP/2 frames show a cut stream by themselves, so a peer that
        // closes TCP without a TLS goodbye is a closed connection, not a protocol error.
        unsafe cshims_ssl_ctx_set_read_ahead(handle, 1)
        unsafe SSL_CTX_set_default_read_buffer_len(handle, 32 * 1024)
        // IGNORE_UNEXPECTED_EOF and NO_RENEGOTIATION, which HTTP/2 forbids: macros with arguments, not seen by Swift.
        _ = unsafe SSL_CTX_set_options(handle, UInt64(1) << 7 | UInt64(1) << 30)
        return unsafe handle
    }
}

// SSL_CTX_set_alpn_select_cb: `h2` or nothing.
private func selectHTTP2(
    _ ssl: OpaquePointer?,
    _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ outLength: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?,
    _ offeredLength: UInt32,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let out = unsafe out, let outLength = unsafe outLength, let offered = unsafe offered else {
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }
    var start = 0
    while start < Int(offeredLength) {
        let length = Int(unsafe offered[start])
        if length == 2, start + 2 < Int(offeredLength), unsafe offered[start + 1] == 0x68,
            unsafe offered[start + 2] == 0x32
        {
            unsafe out.pointee = offered + start + 1
            unsafe outLength.pointee = 2
            return SSL_TLSEXT_ERR_OK
        }
        start += 1 + length
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL
}
