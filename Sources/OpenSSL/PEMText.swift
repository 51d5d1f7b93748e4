internal import COpenSSL

/// PEM as people paste it, brought back to PEM as the standard has it.
///
/// Accepted: CRLF or CR line ends, no last line end, base64 in one line, spaces where line ends were, the two
/// characters backslash-n for each line end (service accounts in environment variables), blank lines and text before.
package enum PEMText {
    /// One block of a PEM text: its label, such as `PRIVATE KEY`, and its base64 without any white space.
    struct Block {
        let label: String
        let base64: [UInt8]
        let isEncrypted: Bool

        /// The block as the standard has it, lines of 64.
        var text: [UInt8] {
            var text = Array("-----BEGIN \(label)-----\n".utf8)
            for start in stride(from: 0, to: base64.count, by: 64) {
                text += base64[start..<min(start + 64, base64.count)]
                text.append(0x0A)
            }
            return text + "-----END \(label)-----\n".utf8
        }
    }

    /// Rewrites the private key in `bytes` as standard PEM.
    ///
    /// - Parameter purpose: what the key is for, for the message, such as `an APNs key (.p8)`.
    /// - Throws: `OpenSSLError` that says what was found in place of a private key.
    package static func normalised(_ bytes: [UInt8], purpose: String) throws(OpenSSLError) -> [UInt8] {
        let expected = "\(purpose) must be a PEM text that begins with -----BEGIN PRIVATE KEY-----"
        let blocks = blocks(in: bytes)
        guard let key = blocks.first(where: { $0.label.hasSuffix("PRIVATE KEY") }) else {
            throw OpenSSLError(.unusableKey, "\(expected), but \(finding(blocks, bytes))")
        }
        if key.isEncrypted || key.label == "ENCRYPTED PRIVATE KEY" {
            let advice = "store it without a passphrase: openssl pkcs8 -topk8 -nocrypt"
            throw OpenSSLError(.unusableKey, "\(purpose) is encrypted with a passphrase; \(advice)")
        }
        guard ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"].contains(key.label) else {
            throw OpenSSLError(.unusableKey, "\(expected), but it is a \(key.label)")
        }
        return key.text
    }

    // What to say about a text without a private key.
    private static func finding(_ blocks: [Block], _ bytes: [UInt8]) -> String {
        switch blocks.first?.label {
        case "CERTIFICATE": "it is a certificate"
        case "PUBLIC KEY", "RSA PUBLIC KEY": "it is a public key"
        case "CERTIFICATE REQUEST": "it is a certificate request"
        case let label?: "it is a \(label)"
        case nil where bytes.allSatisfy(isBlank): "it is empty"
        case nil where bytes.first == 0x30: "it is binary (DER, or a .p12 container)"
        case nil: "it has no complete BEGIN and END lines (\(bytes.count) bytes)"
        }
    }

    static func blocks(in bytes: [UInt8]) -> [Block] {
        let text = unescaped(bytes)
        var blocks: [Block] = []
        var position = 0
        while let begin = find("-----BEGIN ", in: text, from: position),
            let labelEnd = find("-----", in: text, from: begin.upperBound),
            let end = find("-----END ", in: text, from: labelEnd.upperBound)
        {
            let label = String(decoding: text[begin.upperBound..<labelEnd.lowerBound], as: UTF8.self)
            let inside = text[labelEnd.upperBound..<end.lowerBound]
            let isEncrypted = find("ENCRYPTED", in: Array(inside), from: 0) != nil
            blocks.append(Block(label: label, base64: inside.filter { !isBlank($0) }, isEncrypted: isEncrypted))
            position = end.upperBound
        }
        return blocks
    }

    // The two characters backslash-n (or backslash-r) become a line end; base64 has no backslash.
    private static func unescaped(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            if bytes[index] == 0x5C, index + 1 < bytes.count, bytes[index + 1] == 0x6E || bytes[index + 1] == 0x72 {
                text.append(0x0A)
                index += 2
            } else {
                text.append(bytes[index])
                index += 1
            }
        }
        return text
    }

    private static func find(_ needle: StaticString, in text: [UInt8], from start: Int) -> Range<Int>? {
        let needle = Array(needle.description.utf8)
        guard text.count >= needle.count else { return nil }
        var index = start
        while index + needle.count <= text.count {
            if text[index..<index + needle.count].elementsEqual(needle) { return index..<index + needle.count }
            index += 1
        }
        return nil
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || (0x09...0x0D).contains(byte)
    }

    // The first certificate of a PEM text; the caller frees it.
    static func readCertificate(_ bytes: [UInt8]) throws(OpenSSLError) -> OpaquePointer {
        OpenSSLError.clearQueue()
        guard let block = blocks(in: bytes).first(where: { $0.label == "CERTIFICATE" }) else {
            throw OpenSSLError(
                .unusableKey,
                "A certificate in PEM was expected, but \(finding(blocks(in: bytes), bytes))"
            )
        }
        let text = block.text
        guard let bio = unsafe BIO_new_mem_buf(text, Int32(text.count)) else {
            throw .fromQueue(.libraryFailed, "The certificate could not be read")
        }
        defer { unsafe BIO_free(bio) }
        guard let certificate = unsafe PEM_read_bio_X509(bio, nil, nil, nil) else {
            throw .fromQueue(.unusableKey, "The certificate is damaged")
        }
        return unsafe certificate
    }
}
