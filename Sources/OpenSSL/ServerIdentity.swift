internal import COpenSSL
internal import CShims

/// A certificate and its private key for a TLS server of our own making: simulators and tests.
package struct ServerIdentity: Sendable {
    /// The server's certificate, PEM. It is its own root: give it to clients as the CA file.
    package let certificatePEM: [UInt8]
    /// The private key, PKCS#8 PEM.
    package let keyPEM: [UInt8]

    /// Makes a new P-256 key and a certificate signed by itself.
    ///
    /// - Parameters:
    ///   - hosts: DNS names or IP addresses that the certificate is for; `localhost` and `127.0.0.1` are usual.
    ///   - validFor: seconds from now; a negative number makes an expired certificate.
    /// - Throws: `OpenSSLError` when the library refuses, or a host is neither a name nor an address.
    package init(hosts: [String], validFor seconds: Int = 30 * 86_400) throws(OpenSSLError) {
        keyPEM = try SigningKey.makePEM(.es256)
        let pair = try PrivateKeyHandle(pem: keyPEM, purpose: "the new key")
        guard let certificate = unsafe X509_new() else {
            throw .fromQueue(.libraryFailed, "No certificate could be made")
        }
        defer { unsafe X509_free(certificate) }
        let start = min(-3600, seconds - 3600)
        let serial = try SecureRandom.bytes(7).reduce(1) { $0 << 8 | Int($1) }
        let name = unsafe X509_get_subject_name(certificate)
        let commonName = Array("peal simulator".utf8)
        guard unsafe X509_set_version(certificate, 2) == 1,
            unsafe ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial) == 1,
            unsafe X509_gmtime_adj(X509_getm_notBefore(certificate), start) != nil,
            unsafe X509_gmtime_adj(X509_getm_notAfter(certificate), seconds) != nil,
            unsafe X509_set_pubkey(certificate, pair.key) == 1,
            unsafe X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, commonName, Int32(commonName.count), -1, 0)
                == 1,
            unsafe X509_set_issuer_name(certificate, name) == 1
        else { throw .fromQueue(.libraryFailed, "The certificate could not be filled in") }
        let names = hosts.map { (ServerIdentity.isAddress($0) ? "IP:" : "DNS:") + $0 }
        OpenSSLError.clearQueue()
        try unsafe ServerIdentity.addExtension(NID_subject_alt_name, names.joined(separator: ","), to: certificate)
        try unsafe ServerIdentity.addExtension(NID_basic_constraints, "critical,CA:TRUE", to: certificate)
        guard unsafe X509_sign(certificate, pair.key, EVP_sha256()) > 0 else {
            throw .fromQueue(.libraryFailed, "The certificate could not be signed")
        }
        certificatePEM = try unsafe PEMWriter.text { bio in unsafe PEM_write_bio_X509(bio, certificate) }
    }

    private static func isAddress(_ host: String) -> Bool {
        guard let address = unsafe a2i_IPADDRESS(host) else { return false }
        unsafe ASN1_OCTET_STRING_free(address)
        return true
    }

    private static func addExtension(_ id: Int32, _ value: String, to certificate: OpaquePointer) throws(OpenSSLError) {
        guard let made = unsafe X509V3_EXT_conf_nid(nil, nil, id, value) else {
            throw .fromQueue(.unusableKey, "A certificate cannot hold \(value)")
        }
        defer { unsafe X509_EXTENSION_free(made) }
        guard unsafe X509_add_ext(certificate, made, -1) == 1 else {
            throw .fromQueue(.libraryFailed, "The certificate could not be extended")
        }
    }
}
