import COpenSSL

/// A private or public key of OpenSSL, with the few operations that a provider needs: make, read, write, verify.
///
/// Unchecked: the pointer never changes, and OpenSSL lets several threads use one key that nobody modifies.
@safe
final class CryptoKey: @unchecked Sendable {
    let pointer: OpaquePointer

    private init(_ pointer: OpaquePointer) {
        unsafe self.pointer = pointer
    }

    deinit { unsafe EVP_PKEY_free(pointer) }

    /// A fresh P-256 key.
    static func makeP256() throws(SimulatorError) -> CryptoKey {
        unsafe try generate(EVP_PKEY_EC, "a P-256 key") {
            unsafe EVP_PKEY_CTX_set_ec_paramgen_curve_nid($0, NID_X9_62_prime256v1)
        }
    }

    /// A fresh RSA key of 2048 bits; takes 50 to 500 ms.
    static func makeRSA() throws(SimulatorError) -> CryptoKey {
        unsafe try generate(EVP_PKEY_RSA, "an RSA key") { unsafe EVP_PKEY_CTX_set_rsa_keygen_bits($0, 2048) }
    }

    private static func generate(
        _ kind: Int32,
        _ name: String,
        _ setUp: (OpaquePointer) -> Int32
    ) throws(SimulatorError) -> CryptoKey {
        guard let context = unsafe EVP_PKEY_CTX_new_id(kind, nil) else { throw cryptoError(.key, "making \(name)") }
        defer { unsafe EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard unsafe EVP_PKEY_keygen_init(context) == 1, unsafe setUp(context) == 1,
            unsafe EVP_PKEY_keygen(context, &key) == 1, let key = unsafe key
        else { throw cryptoError(.key, "making \(name)") }
        return unsafe CryptoKey(key)
    }

    /// Reads a private key PEM, or, failing that, a public key PEM.
    init(pem: String, name: String) throws(SimulatorError) {
        var text = Array(pem.utf8)
        let key = unsafe text.withUnsafeMutableBytes { bytes -> OpaquePointer? in
            guard let base = bytes.baseAddress else { return nil }
            for isPrivate in [true, false] {
                guard let bio = unsafe BIO_new_mem_buf(base, Int32(bytes.count)) else { return nil }
                defer { unsafe BIO_free(bio) }
                let key =
                    unsafe isPrivate
                    ? PEM_read_bio_PrivateKey(bio, nil, nil, nil) : PEM_read_bio_PUBKEY(bio, nil, nil, nil)
                if let key = unsafe key { return unsafe key }
            }
            return nil
        }
        guard let key = unsafe key else { throw cryptoError(.key, "reading \(name) as PEM") }
        unsafe pointer = key
    }

    /// PKCS#8 PEM, unencrypted.
    func privatePEM() throws(SimulatorError) -> String {
        guard
            let text = unsafe textWritten({ unsafe PEM_write_bio_PKCS8PrivateKey($0, pointer, nil, nil, 0, nil, nil) })
        else { throw cryptoError(.key, "writing a key as PEM") }
        return text
    }

    /// True if `signature` is a raw r||s P-256 signature (64 bytes, not DER) of the message's SHA-256.
    func verifiesES256(_ message: [UInt8], signature: [UInt8]) -> Bool {
        guard signature.count == 64, unsafe EVP_PKEY_get_base_id(pointer) == EVP_PKEY_EC else { return false }
        guard let pair = unsafe ECDSA_SIG_new() else { return false }
        defer { unsafe ECDSA_SIG_free(pair) }
        guard let r = unsafe BN_bin2bn(signature, 32, nil) else { return false }
        guard let s = unsafe BN_bin2bn(Array(signature[32...]), 32, nil) else {
            unsafe BN_free(r)
            return false
        }
        // From here on the pair owns both numbers.
        guard unsafe ECDSA_SIG_set0(pair, r, s) == 1 else { return false }
        var der: UnsafeMutablePointer<UInt8>?
        let length = unsafe i2d_ECDSA_SIG(pair, &der)
        guard length > 0, let der = unsafe der else { return false }
        defer { unsafe CRYPTO_free(der, "CryptoKey.swift", 0) }
        return unsafe verify(message, UnsafeBufferPointer(start: der, count: Int(length)))
    }

    /// True if `signature` is a PKCS#1 v1.5 RSA signature of the message's SHA-256.
    func verifiesRS256(_ message: [UInt8], signature: [UInt8]) -> Bool {
        guard unsafe EVP_PKEY_get_base_id(pointer) == EVP_PKEY_RSA else { return false }
        return unsafe signature.withUnsafeBufferPointer { unsafe verify(message, $0) }
    }

    private func verify(_ message: [UInt8], _ signature: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let context = unsafe EVP_MD_CTX_new() else { return false }
        defer {
            unsafe EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        guard unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, pointer) == 1 else { return false }
        return unsafe EVP_DigestVerify(context, signature.baseAddress, signature.count, message, message.count) == 1
    }
}

/// What a function writes into a memory BIO, as text; nil if it answers anything but 1.
func textWritten(_ write: (OpaquePointer) -> Int32) -> String? {
    guard let bio = unsafe BIO_new(BIO_s_mem()) else { return nil }
    defer { unsafe BIO_free(bio) }
    guard unsafe write(bio) == 1 else { return nil }
    var text: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
        let count = unsafe BIO_read(bio, &chunk, Int32(chunk.count))
        guard count > 0 else { break }
        text += chunk[..<Int(count)]
    }
    return String(decoding: text, as: UTF8.self)
}

/// An error with the first entry of OpenSSL's error queue; clears the queue.
func cryptoError(_ code: SimulatorError.Code, _ doing: String) -> SimulatorError {
    let number = ERR_get_error()
    ERR_clear_error()
    let text = unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer -> String in
        guard let base = buffer.baseAddress else { return "unknown" }
        unsafe ERR_error_string_n(number, base, buffer.count)
        return unsafe String(cString: base)
    }
    return SimulatorError(code: code, context: "\(doing) failed: \(text)")
}
