internal import COpenSSL

/// SHA-256 of `bytes`, 32 bytes. About 1 µs for 250 bytes.
package func sha256(_ bytes: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    _ = unsafe SHA256(bytes, bytes.count, &digest)
    return digest
}

/// Bytes that nobody can guess, from the library's generator.
package enum SecureRandom {
    /// So many random bytes.
    ///
    /// - Throws: `OpenSSLError` when the generator has no seed, in which case nothing secret can be made at all.
    package static func bytes(_ count: Int) throws(OpenSSLError) -> [UInt8] {
        OpenSSLError.clearQueue()
        var bytes = [UInt8](repeating: 0, count: count)
        guard unsafe RAND_bytes(&bytes, Int32(count)) == 1 else {
            throw .fromQueue(.libraryFailed, "The random generator failed")
        }
        return bytes
    }
}
