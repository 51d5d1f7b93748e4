import HTTP2
import OpenSSL
import PushCore

/// The exchange of a signed assertion for an access token at Google's token endpoint.
enum GoogleToken {
    private static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    static let lifetimeSeconds: Int64 = 3_600

    /// Why there is no access token.
    struct Refusal: Error, Equatable {
        /// The endpoint's own word such as `invalid_grant`, or what went wrong on the way.
        let reason: String
        /// What it said beside it, for the log.
        let description: String
        /// Asking again as it is will not help.
        let isFinal: Bool

        /// The description with its full stop, which the endpoint writes or does not.
        var sentence: String { description.hasSuffix(".") ? description : description + "." }
    }

    /// The signed assertion of a service account.
    static func assertion(
        clientEmail: String,
        tokenURI: String,
        keyID: String?,
        signingKey: SigningKey,
        now: WallClock.Instant
    ) throws(OpenSSLError) -> [UInt8] {
        var header = JSONObject()
        header["alg"] = "RS256"
        header["typ"] = "JWT"
        header["kid"] = keyID.map(JSONValue.string)
        let issued = now.secondsSinceEpoch
        var claims = JSONObject()
        claims["iss"] = .string(clientEmail)
        claims["scope"] = .string(scope)
        claims["aud"] = .string(tokenURI)
        claims["iat"] = .number(JSONNumber(Int(issued)))
        claims["exp"] = .number(JSONNumber(Int(issued + lifetimeSeconds)))
        return try JSONWebToken.make(header: text(header), claims: text(claims), signedWith: signingKey)
    }

    /// The request that carries an assertion.
    static func request(assertion: [UInt8], path: String) throws(HTTP2Error) -> RequestBatch {
        var builder = RequestBatchBuilder(timeLimit: .seconds(15), reserving: 1, bytesEach: 2_048)
        try builder.addField("content-type", value: "application/x-www-form-urlencoded")
        let form = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
        let body = builder.makeBody(.bytes(builder.store(Array(form.utf8) + assertion)))
        try builder.add(path: builder.store(path), body: body)
        return builder.finish()
    }

    /// Reads the endpoint's answer.
    static func read(status: Int, body: [UInt8], now: WallClock.Instant) throws(Refusal) -> Bearer {
        let object: JSONObject? =
            if let value = try? JSONValue.parse(body, root: "token"), case .object(let object) = value { object } else {
                nil
            }
        guard status == 200 else {
            let isFinal = (400..<500).contains(status) && status != 408 && status != 429
            throw Refusal(
                reason: text(object?["error"]) ?? "token_endpoint_http_\(status)",
                description: text(object?["error_description"]) ?? "the token endpoint answered \(status)",
                isFinal: isFinal
            )
        }
        guard let token = text(object?["access_token"]), !token.isEmpty,
            token.utf8.allSatisfy({ (0x21..<0x7F).contains($0) })
        else {
            throw Refusal(
                reason: "no_access_token",
                description: "the token endpoint answered 200 without an access token",
                isFinal: true
            )
        }
        var lifetime = lifetimeSeconds
        if case .number(let number)? = object?["expires_in"], let seconds = number.wholeNumber {
            lifetime = Int64(max(1, min(seconds, 86_400)))
        }
        return Bearer(.google, token: Array(token.utf8), issuedAt: now, expiresAt: now + .seconds(lifetime))
    }

    private static func text(_ object: JSONObject) -> [UInt8] {
        var writer = ByteWriter(capacity: 256)
        writer.append(json: .object(object))
        return writer.bytes
    }

    private static func text(_ value: JSONValue?) -> String? {
        guard case .string(let text)? = value else { return nil }
        return text
    }
}
