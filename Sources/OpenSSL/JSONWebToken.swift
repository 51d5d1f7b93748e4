internal import PushCore

/// Signed JSON Web Tokens: APNs provider tokens (ES256) and Google's assertions (RS256).
package enum JSONWebToken {
    /// Joins header, claims and signature: three parts in base64url without padding, as ASCII.
    ///
    /// - Parameters:
    ///   - header: JSON such as `{"alg":"ES256","kid":"…"}`; its `alg` must be the key's.
    ///   - claims: JSON such as `{"iss":"…","iat":1700000000}`.
    /// - Throws: `OpenSSLError` when signing fails.
    package static func make(
        header: [UInt8],
        claims: [UInt8],
        signedWith key: SigningKey
    ) throws(OpenSSLError) -> [UInt8] {
        var token: [UInt8] = []
        token.reserveCapacity((header.count + claims.count) * 4 / 3 + 400)
        Base64URL.append(header, to: &token)
        token.append(UInt8(ascii: "."))
        Base64URL.append(claims, to: &token)
        let signature = try key.sign(token)
        token.append(UInt8(ascii: "."))
        Base64URL.append(signature, to: &token)
        return token
    }

    /// Header and claims of a token whose signature is right; nil for a malformed token or a wrong signature.
    ///
    /// - Throws: `OpenSSLError` when the library refuses to verify at all.
    package static func verified(
        _ token: [UInt8],
        with key: VerifyingKey
    ) throws(OpenSSLError) -> (header: [UInt8], claims: [UInt8])? {
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = Base64URL.decode(String(decoding: parts[0], as: UTF8.self)),
            let claims = Base64URL.decode(String(decoding: parts[1], as: UTF8.self)),
            let signature = Base64URL.decode(String(decoding: parts[2], as: UTF8.self))
        else { return nil }
        let signed = Array(token[..<(parts[2].startIndex - 1)])
        return try key.verify(signature, of: signed) ? (header, claims) : nil
    }
}
