internal import COpenSSL

// Overwrites secrets in a way that the optimiser keeps.
enum SecretBytes {
    static func wipe(_ bytes: inout [UInt8]) {
        unsafe bytes.withUnsafeMutableBytes { buffer in
            unsafe OPENSSL_cleanse(buffer.baseAddress, buffer.count)
        }
    }
}
