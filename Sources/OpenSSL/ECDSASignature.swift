internal import COpenSSL

// OpenSSL speaks DER, JSON Web Tokens carry r and s as 32 bytes each.
enum ECDSASignature {
    static func raw(fromDER der: [UInt8]) throws(OpenSSLError) -> [UInt8] {
        let parsed = unsafe der.withUnsafeBufferPointer { buffer in
            var start = buffer.baseAddress
            return unsafe d2i_ECDSA_SIG(nil, &start, buffer.count)
        }
        guard let parsed = unsafe parsed else { throw .fromQueue(.libraryFailed, "The signature is not DER") }
        defer { unsafe ECDSA_SIG_free(parsed) }
        var raw = [UInt8](repeating: 0, count: 64)
        let fits = unsafe raw.withUnsafeMutableBufferPointer { buffer in
            unsafe BN_bn2binpad(ECDSA_SIG_get0_r(parsed), buffer.baseAddress, 32) == 32
                && BN_bn2binpad(ECDSA_SIG_get0_s(parsed), buffer.baseAddress.map { unsafe $0 + 32 }, 32) == 32
        }
        guard fits else { throw .fromQueue(.libraryFailed, "The signature does not fit P-256") }
        return raw
    }

    static func der(fromRaw raw: [UInt8]) -> [UInt8]? {
        guard raw.count == 64, let signature = unsafe ECDSA_SIG_new() else { return nil }
        defer { unsafe ECDSA_SIG_free(signature) }
        let halves = unsafe raw.withUnsafeBufferPointer { buffer in
            unsafe (
                BN_bin2bn(buffer.baseAddress, 32, nil), BN_bin2bn(buffer.baseAddress.map { unsafe $0 + 32 }, 32, nil)
            )
        }
        guard unsafe ECDSA_SIG_set0(signature, halves.0, halves.1) == 1 else { return nil }
        var bytes: UnsafeMutablePointer<UInt8>?
        let length = unsafe i2d_ECDSA_SIG(signature, &bytes)
        guard length > 0, let bytes = unsafe bytes else { return nil }
        defer { unsafe CRYPTO_free(bytes, #file, #line) }
        return unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(length)))
    }
}
