import COpenSSL

/// A certificate authority made on the spot, and a server certificate for this machine signed by it.
struct TestCertificate: Sendable {
    /// What clients must trust.
    let authorityPEM: String
    let serverPEM: String
    let serverKeyPEM: String
    /// The same, but its time was over yesterday.
    private let expiredPEM: String
    /// The same, but for another host.
    private let otherHostPEM: String

    /// Makes all. The server certificate is for `localhost`, 127.0.0.1, ::1 and the providers' names, valid for ten years.
    init() throws(SimulatorError) {
        let authorityKey = try CryptoKey.makeP256()
        let authority = try Certificate(subject: "peal simulator authority", key: authorityKey, serial: 1)
        try authority.extend(NID_basic_constraints, "critical,CA:TRUE", issuer: authority)
        try authority.extend(NID_key_usage, "critical,keyCertSign,cRLSign", issuer: authority)
        try authority.extend(NID_subject_key_identifier, "hash", issuer: authority)
        try authority.sign(by: authority, with: authorityKey)

        let serverKey = try CryptoKey.makeP256()
        func serverPEM(
            _ names: String,
            serial: Int,
            until lastDay: Int = 3650
        ) throws(SimulatorError) -> String {
            let server = try Certificate(subject: "localhost", key: serverKey, serial: serial, until: lastDay)
            try server.extend(NID_basic_constraints, "critical,CA:FALSE", issuer: authority)
            try server.extend(NID_key_usage, "critical,digitalSignature", issuer: authority)
            try server.extend(NID_ext_key_usage, "serverAuth", issuer: authority)
            try server.extend(NID_subject_alt_name, names, issuer: authority)
            try server.extend(NID_authority_key_identifier, "keyid", issuer: authority)
            try server.sign(by: authority, with: authorityKey)
            return try server.pem()
        }
        // Clients may ask for the providers' own names, both of APNs in one certificate as there.
        let hosts = [
            "localhost", "api.push.apple.com", "api.sandbox.push.apple.com", "fcm.googleapis.com",
            "oauth2.googleapis.com",
        ]
        let ourNames = hosts.map { "DNS:\($0)" }.joined(separator: ",") + ",IP:127.0.0.1,IP:::1"
        authorityPEM = try authority.pem()
        self.serverPEM = try serverPEM(ourNames, serial: 2)
        expiredPEM = try serverPEM(ourNames, serial: 3, until: -1)
        otherHostPEM = try serverPEM("DNS:elsewhere.example", serial: 4)
        serverKeyPEM = try serverKey.privatePEM()
    }

    /// The certificate that a server with this fault shows.
    func serverPEM(_ fault: HandshakeFault?) -> String {
        switch fault {
        case .expiredCertificate: expiredPEM
        case .otherHost: otherHostPEM
        case .refusedALPN, .noALPN, .clientCertificate, nil: serverPEM
        }
    }
}

/// An X.509 certificate under construction.
@safe
private final class Certificate {
    private let pointer: OpaquePointer

    init(subject: String, key: CryptoKey, serial: Int, until lastDay: Int = 3650) throws(SimulatorError) {
        guard let pointer = unsafe X509_new() else { throw cryptoError(.certificate, "making a certificate") }
        unsafe self.pointer = pointer
        let name = unsafe X509_get_subject_name(pointer)
        // Version 3 is written as 2. The start lies days back, for clients whose clock is slow.
        guard unsafe X509_set_version(pointer, 2) == 1,
            unsafe ASN1_INTEGER_set(X509_get_serialNumber(pointer), serial) == 1,
            unsafe X509_gmtime_adj(X509_getm_notBefore(pointer), -10 * 86_400) != nil,
            unsafe X509_gmtime_adj(X509_getm_notAfter(pointer), lastDay * 86_400) != nil,
            unsafe X509_set_pubkey(pointer, key.pointer) == 1,
            unsafe X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, subject, -1, -1, 0) == 1
        else { throw cryptoError(.certificate, "filling in a certificate for \(subject)") }
    }

    deinit { unsafe X509_free(pointer) }

    func extend(_ kind: Int32, _ value: String, issuer: Certificate) throws(SimulatorError) {
        var context = unsafe X509V3_CTX()
        unsafe X509V3_set_ctx(&context, issuer.pointer, pointer, nil, nil, 0)
        guard let item = unsafe X509V3_EXT_conf_nid(nil, &context, kind, value) else {
            throw cryptoError(.certificate, "making the certificate extension \(value)")
        }
        defer { unsafe X509_EXTENSION_free(item) }
        guard unsafe X509_add_ext(pointer, item, -1) == 1 else {
            throw cryptoError(.certificate, "adding the certificate extension \(value)")
        }
    }

    func sign(by issuer: Certificate, with key: CryptoKey) throws(SimulatorError) {
        guard unsafe X509_set_issuer_name(pointer, X509_get_subject_name(issuer.pointer)) == 1,
            unsafe X509_sign(pointer, key.pointer, EVP_sha256()) > 0
        else { throw cryptoError(.certificate, "signing a certificate") }
    }

    func pem() throws(SimulatorError) -> String {
        guard let text = unsafe textWritten({ unsafe PEM_write_bio_X509($0, pointer) }) else {
            throw cryptoError(.certificate, "writing a certificate as PEM")
        }
        return text
    }
}
