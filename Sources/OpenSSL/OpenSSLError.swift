internal import COpenSSL

/// A failure of TLS, of a key, or of sealing: what was being done, what went wrong, and what to do about it.
package struct OpenSSLError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of failure it is, for callers that decide by it.
    package enum Code: Sendable, Equatable {
        /// The peer's certificate was refused: unknown issuer, wrong host, expired.
        case certificateRefused
        /// The handshake or the record layer failed for another reason.
        case tlsFailed
        /// A key, certificate or PEM text is not what was expected.
        case unusableKey
        /// A sealed value was sealed with another key.
        case wrongSealingKey
        /// A sealed value is damaged, or belongs to another row.
        case sealBroken
        /// The library refused a call that should always succeed.
        case libraryFailed
    }

    /// The kind of failure.
    package let code: Code
    /// One sentence or more for a human; never holds key material.
    package let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }

    // Takes what the library queued on this thread, so that the next call starts with an empty queue.
    static func fromQueue(_ code: Code, _ doing: String) -> OpenSSLError {
        let reasons = takeQueue()
        return OpenSSLError(code, reasons.isEmpty ? doing : "\(doing): \(reasons)")
    }

    static func clearQueue() {
        ERR_clear_error()
    }

    // The queued reasons, oldest first, at most four: more is noise.
    static func takeQueue() -> String {
        var reasons: [String] = []
        while reasons.count < 4 {
            let code = ERR_get_error()
            if code == 0 { break }
            if let text = unsafe ERR_reason_error_string(code) {
                unsafe reasons.append(String(cString: text))
            } else {
                reasons.append("error \(String(code, radix: 16))")
            }
        }
        ERR_clear_error()
        return reasons.joined(separator: "; ")
    }
}
