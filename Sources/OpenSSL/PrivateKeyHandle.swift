internal import COpenSSL
internal import CShims

// Owns one EVP_PKEY; OpenSSL wipes the key when it is freed.
@safe
final class PrivateKeyHandle: @unchecked Sendable {
    // An EVP_PKEY counts its references atomically and is not changed after init; signing only reads it.
    let key: OpaquePointer

    init(key: OpaquePointer) {
        unsafe self.key = unsafe key
    }

    convenience init(pem: [UInt8], purpose: String) throws(OpenSSLError) {
        var text = try PEMText.normalised(pem, purpose: purpose)
        defer { SecretBytes.wipe(&text) }
        OpenSSLError.clearQueue()
        guard let bio = unsafe BIO_new_mem_buf(text, Int32(text.count)) else {
            throw .fromQueue(.libraryFailed, "\(purpose) could not be read")
        }
        defer { unsafe BIO_free(bio) }
        guard let key = unsafe PEM_read_bio_PrivateKey(bio, nil, refusePassphrase, nil) else {
            throw .fromQueue(
                .unusableKey,
                "\(purpose) is damaged: its PEM frame is right, but what it holds is no private key"
            )
        }
        unsafe self.init(key: key)
    }

    deinit {
        unsafe EVP_PKEY_free(key)
    }

    // What kind of key it is, in the words of an error message.
    var kind: Kind {
        switch unsafe EVP_PKEY_get_base_id(key) {
        case EVP_PKEY_RSA, EVP_PKEY_RSA_PSS: .rsa(bits: Int(unsafe EVP_PKEY_get_bits(key)))
        case EVP_PKEY_EC: .ec(curve: curve)
        default: .other
        }
    }

    enum Kind: Equatable, CustomStringConvertible {
        case rsa(bits: Int)
        case ec(curve: String)
        case other

        var description: String {
            switch self {
            case .rsa(let bits): "an RSA key of \(bits) bits"
            case .ec("prime256v1"): "an EC key on P-256"
            case .ec("secp384r1"): "an EC key on P-384"
            case .ec("secp521r1"): "an EC key on P-521"
            case .ec(let curve): "an EC key on \(curve)"
            case .other: "a key that is neither RSA nor EC"
            }
        }
    }

    private var curve: String {
        var name = [CChar](repeating: 0, count: 80)
        guard unsafe EVP_PKEY_get_group_name(key, &name, name.count, nil) == 1 else { return "an unknown curve" }
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

// pem_password_cb: never ask on the terminal.
private func refusePassphrase(
    _ buffer: UnsafeMutablePointer<CChar>?,
    _ size: Int32,
    _ writing: Int32,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    -1
}
