internal import COpenSSL
internal import PushCore

/// The master key: seals secrets with AES-256-GCM so that they can rest in the database.
///
/// A sealed value is one format byte, the first 4 bytes of the key's SHA-256 (so that a wrong key is named as such), a
/// random nonce of 12 bytes, the ciphertext, and the tag of 16. It opens only with the same associated data, so a value
/// cannot be moved to another row.
@safe
package final class SealingKey: @unchecked Sendable {
    // Written in init, wiped in deinit, read only in between.
    private let key: UnsafeMutablePointer<UInt8>
    /// The first 4 bytes of the key's SHA-256 in hex: safe to log, tells keys apart.
    package let identifier: String
    private let identifierBytes: [UInt8]

    private static let format: UInt8 = 1
    private static let keyBytes = 32
    private static let nonceBytes = 12
    private static let tagBytes = 16
    private static let headerBytes = 1 + 4 + nonceBytes

    /// Takes the key's 32 bytes.
    ///
    /// - Throws: `OpenSSLError` (`unusableKey`) when there are more or fewer.
    package init(bytes: [UInt8]) throws(OpenSSLError) {
        guard bytes.count == SealingKey.keyBytes else {
            throw OpenSSLError(.unusableKey, "The master key must have 32 bytes, but it has \(bytes.count)")
        }
        unsafe key = .allocate(capacity: SealingKey.keyBytes)
        for index in 0..<SealingKey.keyBytes {
            unsafe (key + index).initialize(to: bytes[index])
        }
        identifierBytes = Array(sha256(bytes).prefix(4))
        identifier = Hex.encode(identifierBytes)
    }

    /// Takes the key as people write it: 64 hex digits, or base64 (either alphabet) of 32 bytes; white space around it is ignored.
    ///
    /// - Throws: `OpenSSLError` (`unusableKey`) for anything else; the message does not repeat the text.
    package convenience init(text: String) throws(OpenSSLError) {
        let trimmed = text.filter { !$0.isWhitespace }
        let bytes = trimmed.utf8.count == 64 ? Hex.decode(trimmed) : nil
        guard let key = bytes ?? Base64URL.decodeStandard(trimmed) ?? Base64URL.decode(trimmed) else {
            let advice = "make one with: openssl rand -hex 32"
            throw OpenSSLError(.unusableKey, "The master key must be 64 hex digits or base64 of 32 bytes; \(advice)")
        }
        try self.init(bytes: key)
    }

    deinit {
        unsafe OPENSSL_cleanse(key, SealingKey.keyBytes)
        unsafe key.deallocate()
    }

    /// Bytes that a sealed value has beyond its plain text.
    package static var overheadBytes: Int { headerBytes + tagBytes }

    /// Seals `plain` for the place that `associated` names, such as table, row id and column.
    ///
    /// - Throws: `OpenSSLError` when the library refuses.
    package func seal(_ plain: [UInt8], associated: [UInt8]) throws(OpenSSLError) -> [UInt8] {
        let nonce = try SecureRandom.bytes(SealingKey.nonceBytes)
        guard let context = unsafe EVP_CIPHER_CTX_new() else {
            throw .fromQueue(.libraryFailed, "No cipher could be made")
        }
        defer { unsafe EVP_CIPHER_CTX_free(context) }
        var cipher = [UInt8](repeating: 0, count: plain.count + 16)
        var tag = [UInt8](repeating: 0, count: SealingKey.tagBytes)
        var length: Int32 = 0
        guard unsafe EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
            unsafe EVP_EncryptUpdate(context, nil, &length, associated, Int32(associated.count)) == 1,
            unsafe EVP_EncryptUpdate(context, &cipher, &length, plain, Int32(plain.count)) == 1,
            unsafe EVP_EncryptFinal_ex(context, nil, &length) == 1,
            unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, Int32(tag.count), &tag) == 1
        else { throw .fromQueue(.libraryFailed, "Sealing failed") }
        return [SealingKey.format] + identifierBytes + nonce + cipher.prefix(plain.count) + tag
    }

    /// Opens what `seal` made with the same associated data.
    ///
    /// - Throws: `OpenSSLError`: `wrongSealingKey` when another key sealed it, `sealBroken` when it is damaged or
    ///   belongs elsewhere.
    package func open(_ sealed: [UInt8], associated: [UInt8]) throws(OpenSSLError) -> [UInt8] {
        guard sealed.count >= SealingKey.overheadBytes, sealed[0] == SealingKey.format else {
            throw OpenSSLError(.sealBroken, "This is no sealed value (\(sealed.count) bytes)")
        }
        guard sealed[1..<5].elementsEqual(identifierBytes) else {
            let sealer = Hex.encode(sealed[1..<5])
            throw OpenSSLError(
                .wrongSealingKey,
                "The value was sealed with master key \(sealer), but PEAL_MASTER_KEY is \(identifier). Set the former key."
            )
        }
        let nonce = Array(sealed[5..<SealingKey.headerBytes])
        let cipher = Array(sealed[SealingKey.headerBytes..<sealed.count - SealingKey.tagBytes])
        var tag = Array(sealed.suffix(SealingKey.tagBytes))
        guard let context = unsafe EVP_CIPHER_CTX_new() else {
            throw .fromQueue(.libraryFailed, "No cipher could be made")
        }
        defer { unsafe EVP_CIPHER_CTX_free(context) }
        var plain = [UInt8](repeating: 0, count: cipher.count + 16)
        var length: Int32 = 0
        guard unsafe EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
            unsafe EVP_DecryptUpdate(context, nil, &length, associated, Int32(associated.count)) == 1,
            unsafe EVP_DecryptUpdate(context, &plain, &length, cipher, Int32(cipher.count)) == 1,
            unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, Int32(tag.count), &tag) == 1
        else { throw .fromQueue(.libraryFailed, "Opening failed") }
        guard unsafe EVP_DecryptFinal_ex(context, nil, &length) == 1 else {
            SecretBytes.wipe(&plain)
            OpenSSLError.clearQueue()
            throw OpenSSLError(.sealBroken, "The sealed value is damaged or was moved from another row")
        }
        plain.removeLast(plain.count - cipher.count)
        return plain
    }
}
