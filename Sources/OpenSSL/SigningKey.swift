internal import COpenSSL
internal import CShims

/// How a provider wants its tokens signed.
package enum SignatureAlgorithm: String, Sendable {
    /// ECDSA on P-256 with SHA-256; the signature is r then s, 32 bytes each. APNs.
    case es256 = "ES256"
    /// RSA PKCS#1 v1.5 with SHA-256. Google service accounts.
    case rs256 = "RS256"

    var expectation: String {
        switch self {
        case .es256: "an EC key on P-256 (ES256)"
        case .rs256: "an RSA key of at least 2048 bits (RS256)"
        }
    }

    func accepts(_ kind: PrivateKeyHandle.Kind) -> Bool {
        switch (self, kind) {
        case (.es256, .ec("prime256v1")): true
        case (.rs256, .rsa(let bits)): bits >= 2048
        default: false
        }
    }
}

/// A private key that signs provider tokens. It has signed once when init returns, so a damaged key never gets further.
package final class SigningKey: Sendable {
    /// The algorithm this key signs with.
    package let algorithm: SignatureAlgorithm
    private let handle: PrivateKeyHandle

    /// Loads a private key from PEM (PKCS#8, SEC1 or PKCS#1), forgiving what copy and paste do to it (see `PEMText`).
    ///
    /// - Parameter purpose: what the key is for, for the message, such as `the APNs key of app shop`.
    /// - Throws: `OpenSSLError` (`unusableKey`) that says what was found and what was expected.
    package init(pem: [UInt8], algorithm: SignatureAlgorithm, purpose: String) throws(OpenSSLError) {
        let handle = try PrivateKeyHandle(pem: pem, purpose: purpose)
        guard algorithm.accepts(handle.kind) else {
            throw OpenSSLError(.unusableKey, "\(purpose) must be \(algorithm.expectation), but it is \(handle.kind)")
        }
        self.algorithm = algorithm
        self.handle = handle
        let probe = Array("peal".utf8)
        guard try VerifyingKey(handle: handle, algorithm: algorithm).verify(try sign(probe), of: probe) else {
            throw OpenSSLError(
                .unusableKey,
                "\(purpose) is damaged: its private half does not belong to its public half"
            )
        }
    }

    /// Signs with SHA-256: 64 bytes (r, s) for ES256, the modulus' length for RS256. About 30 µs and 800 µs.
    ///
    /// - Throws: `OpenSSLError` when the library refuses.
    package func sign(_ message: [UInt8]) throws(OpenSSLError) -> [UInt8] {
        OpenSSLError.clearQueue()
        guard let context = unsafe EVP_MD_CTX_new() else { throw .fromQueue(.libraryFailed, "No digest could be made") }
        defer { unsafe EVP_MD_CTX_free(context) }
        var length = 0
        guard unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, handle.key) == 1,
            unsafe EVP_DigestSign(context, nil, &length, message, message.count) == 1
        else { throw .fromQueue(.libraryFailed, "Signing could not begin") }
        var signature = [UInt8](repeating: 0, count: length)
        guard unsafe EVP_DigestSign(context, &signature, &length, message, message.count) == 1 else {
            throw .fromQueue(.libraryFailed, "Signing failed")
        }
        signature.removeLast(signature.count - length)
        return algorithm == .es256 ? try ECDSASignature.raw(fromDER: signature) : signature
    }

    /// Makes a new private key as PKCS#8 PEM, for simulators and tests.
    ///
    /// - Throws: `OpenSSLError` when the library refuses.
    package static func makePEM(_ algorithm: SignatureAlgorithm) throws(OpenSSLError) -> [UInt8] {
        let made = unsafe algorithm == .es256 ? cshims_evp_ec_gen("P-256") : cshims_evp_rsa_gen(2048)
        guard let key = unsafe made else { throw .fromQueue(.libraryFailed, "No key could be made") }
        let handle = unsafe PrivateKeyHandle(key: key)
        return try unsafe PEMWriter.text { bio in
            unsafe PEM_write_bio_PKCS8PrivateKey(bio, handle.key, nil, nil, 0, nil, nil)
        }
    }
}

/// The public half of a signing key: what a provider's double checks tokens with.
package final class VerifyingKey: Sendable {
    private let handle: PrivateKeyHandle
    private let algorithm: SignatureAlgorithm

    /// Takes the public half of a private key in PEM.
    ///
    /// - Throws: `OpenSSLError` (`unusableKey`) when the key is not of the algorithm's kind.
    package convenience init(privatePEM: [UInt8], algorithm: SignatureAlgorithm) throws(OpenSSLError) {
        let handle = try PrivateKeyHandle(pem: privatePEM, purpose: "the verifying key")
        guard algorithm.accepts(handle.kind) else {
            throw OpenSSLError(
                .unusableKey,
                "The verifying key must be \(algorithm.expectation), but it is \(handle.kind)"
            )
        }
        self.init(handle: handle, algorithm: algorithm)
    }

    init(handle: PrivateKeyHandle, algorithm: SignatureAlgorithm) {
        self.handle = handle
        self.algorithm = algorithm
    }

    /// True when `signature` (raw r and s for ES256) is this key's signature of `message`. About 80 µs for ES256.
    ///
    /// - Throws: `OpenSSLError` only when the library refuses; a wrong signature is `false`.
    package func verify(_ signature: [UInt8], of message: [UInt8]) throws(OpenSSLError) -> Bool {
        OpenSSLError.clearQueue()
        defer { OpenSSLError.clearQueue() }
        guard let context = unsafe EVP_MD_CTX_new() else { throw .fromQueue(.libraryFailed, "No digest could be made") }
        defer { unsafe EVP_MD_CTX_free(context) }
        guard unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, handle.key) == 1 else {
            throw .fromQueue(.libraryFailed, "Verifying could not begin")
        }
        var bytes = signature
        if algorithm == .es256 {
            guard let der = ECDSASignature.der(fromRaw: signature) else { return false }
            bytes = der
        }
        return unsafe EVP_DigestVerify(context, bytes, bytes.count, message, message.count) == 1
    }
}
