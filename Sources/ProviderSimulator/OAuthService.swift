import PushCore

/// The token endpoint: takes a signed assertion, gives an access token.
struct OAuthService {
    /// Grant type of the service-account flow.
    static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    /// Scopes that FCM takes.
    static let scopes: Set<String> = [
        "https://www.googleapis.com/auth/firebase.messaging", "https://www.googleapis.com/auth/cloud-platform",
    ]

    /// An account with its parsed key.
    struct KnownAccount: Sendable {
        let account: OAuthAccount
        let key: CryptoKey

        init(_ account: OAuthAccount) throws(SimulatorError) {
            self.account = account
            key = try CryptoKey(pem: account.privateKeyPEM, name: "the key of \(account.clientEmail)")
        }
    }

    let options: OAuthOptions
    /// The audience that assertions must name: the endpoint's own address.
    let tokenURI: String
    var accounts: [KnownAccount] = []

    /// The answer to a request; adds the token that it gives out.
    func answer(slot: StreamSlot, fault: OAuthFault?, clock: SimulatorClock, tokens: inout AccessTokens) -> Decision {
        let path = slot.bytes(.path).map { $0.prefix { $0 != UInt8(ascii: "?") } } ?? []
        guard path.elementsEqual("/token".utf8) else { return FCMAnswers.html(404) }
        guard slot.equals(.method, "POST") else { return FCMAnswers.html(405) }
        if let fault { return Self.answer(to: fault) }
        let form = Self.form(slot.body)
        guard form["grant_type"] == Self.grantType else {
            return Self.error("unsupported_grant_type", "Invalid grant_type")
        }
        guard let assertion = form["assertion"], let parts = JWTParts(Array(assertion.utf8)),
            parts.header["alg"]?.string == "RS256"
        else { return Self.error("invalid_request", "Bad Request") }
        let now = clock.unixSeconds
        switch check(parts, now: now) {
        case .refused(let decision): return decision
        case .granted(let account):
            let token = Self.makeToken()
            let expiry = now + options.expiresInSeconds
            tokens.add(token, projectID: account.projectID, expiresAt: expiry, now: now)
            return Decision(
                status: 200,
                contentType: "application/json; charset=utf-8",
                body: Array(
                    "{\"access_token\":\"\(token)\",\"expires_in\":\(options.expiresInSeconds),\"token_type\":\"Bearer\"}"
                        .utf8
                )
            )
        }
    }

    private enum Verdict {
        case granted(OAuthAccount)
        case refused(Decision)
    }

    /// In this order: account, signature, presence of the times, window, scope, audience.
    private func check(_ parts: JWTParts, now: Int64) -> Verdict {
        let candidates = accounts.filter { $0.account.clientEmail == parts.claims["iss"]?.string }
        guard !candidates.isEmpty else {
            return .refused(Self.error("invalid_grant", "Invalid grant: account not found"))
        }
        guard let known = candidates.first(where: { $0.key.verifiesRS256(parts.signed, signature: parts.signature) })
        else {
            return .refused(Self.error("invalid_grant", "Invalid JWT Signature."))
        }
        guard let issuedAt = parts.claims["iat"]?.integer, let expiry = parts.claims["exp"]?.integer else {
            return .refused(Self.error("invalid_grant", "Invalid JWT: iat and exp are needed."))
        }
        let isInWindow =
            issuedAt <= now + 300 && expiry > now - 300 && issuedAt > now - 3900
            && expiry - issuedAt <= 3600 && expiry > issuedAt
        guard isInWindow else {
            return .refused(
                Self.error(
                    "invalid_grant",
                    "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
                        + "Check your iat and exp values in the JWT claim."
                )
            )
        }
        let scopes = (parts.claims["scope"]?.string ?? "").split(separator: " ").map(String.init)
        guard !scopes.isEmpty else {
            return .refused(Self.error("invalid_scope", "Invalid OAuth scope or ID token audience provided."))
        }
        guard scopes.contains(where: Self.scopes.contains) else { return .refused(Self.idTokenOnly) }
        let audience = parts.claims["aud"]?.string
        guard audience == tokenURI || audience != nil && audience == known.account.tokenURI else {
            return .refused(Self.error("invalid_grant", "Invalid JWT: Failed audience check."))
        }
        return .granted(known.account)
    }

    private static func answer(to fault: OAuthFault) -> Decision {
        switch fault {
        case .error(let error, let description): Self.error(error, description)
        case .idTokenOnly: idTokenOnly
        case .status(let status): FCMAnswers.html(status)
        case .silence: .unanswered(.silence, reason: "silence")
        }
    }

    private static let idTokenOnly = Decision(
        status: 200,
        reason: "id_token_only",
        contentType: "application/json; charset=utf-8",
        body: Array("{\"id_token\":\"eyJhbGciOiJSUzI1NiJ9.e30.c2ln\"}".utf8)
    )

    private static func error(_ error: String, _ description: String) -> Decision {
        .json(
            status: 400,
            reason: error,
            "{\"error\":\(jsonQuoted(error)),\"error_description\":\(jsonQuoted(description))}"
        )
    }

    /// About as long as Google's, so that header compression meets what it meets in life.
    private static func makeToken() -> String {
        var random = SystemRandomNumberGenerator()
        let bytes = (0..<160).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        return "ya29.sim-" + Base64URL.encode(bytes)
    }

    /// The form with a hash in place of the assertion, which Google itself might take.
    static func withoutSecret(_ body: [UInt8]) -> [UInt8] {
        let name = Array("assertion=".utf8)
        let pairs = body.split(separator: UInt8(ascii: "&")).map { pair in
            pair.starts(with: name) ? name + Array(hexText(hash64(pair.dropFirst(name.count))).utf8) : Array(pair)
        }
        return Array(pairs.joined(separator: [UInt8(ascii: "&")]))
    }

    /// The fields of an urlencoded form; the last of a name wins.
    static func form(_ body: [UInt8]) -> [String: String] {
        var fields: [String: String] = [:]
        for pair in body.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            fields[unescaped(parts[0])] = parts.count == 2 ? unescaped(parts[1]) : ""
        }
        return fields
    }

    private static func unescaped(_ text: ArraySlice<UInt8>) -> String {
        var out: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): out.append(0x20)
            case UInt8(ascii: "%"):
                let digits = String(decoding: rest.prefix(2), as: UTF8.self)
                guard digits.utf8.count == 2, let value = UInt8(digits, radix: 16) else {
                    out.append(byte)
                    continue
                }
                out.append(value)
                rest = rest.dropFirst(2)
            default: out.append(byte)
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
