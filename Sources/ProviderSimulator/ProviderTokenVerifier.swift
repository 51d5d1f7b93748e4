import PushCore

/// Checks the provider tokens of APNs: form, key, team, signature, age, and how they change on a connection.
final class ProviderTokenVerifier {
    /// What a token is, apart from its age.
    fileprivate enum Verdict {
        case invalid
        case valid(key: Int, issuedAt: Int64)
    }

    /// A key with its parsed form.
    struct KnownKey: Sendable {
        let key: APNsSigningKey
        let crypto: CryptoKey

        init(_ key: APNsSigningKey) throws(SimulatorError) {
            self.key = key
            crypto = try CryptoKey(pem: key.privateKeyPEM, name: "APNs key \(key.keyID)")
        }
    }

    /// What a connection remembers of the tokens it has seen.
    struct ConnectionState {
        fileprivate var bearer: [UInt8] = []
        fileprivate var verdict: Verdict = .invalid
        /// The state of the key list that the verdict was made under.
        fileprivate var generation = 0
        /// The key that the connection saw first, and the one of the present token.
        fileprivate var boundKeyID: String?
        fileprivate var bearerKeyID: String?
        /// When the present token was first used here, seconds.
        fileprivate var changedAt: Int64 = 0
        fileprivate var isSpoilt = false

        init() {}
    }

    private struct LastChange {
        var bearer: [UInt8]
        var changedAt: Int64
    }

    private let options: APNsOptions
    private let clock: SimulatorClock
    private var keys: [KnownKey] = []
    private var generation = 1
    private var verdicts: [[UInt8]: Verdict] = [:]
    private var changesByKey: [String: LastChange] = [:]

    init(options: APNsOptions, clock: SimulatorClock) {
        self.options = options
        self.clock = clock
    }

    /// Accepts tokens of these keys from now on, and of no others.
    func replaceKeys(_ keys: [KnownKey]) {
        self.keys = keys
        verdicts.removeAll()
        generation += 1
    }

    /// The reason for refusing the bearer of a request, or nil.
    func fault(bearer: ArraySlice<UInt8>?, role: ProviderRole, state: inout ConnectionState) -> String? {
        guard let header = bearer, let token = Self.token(of: header) else { return "MissingProviderToken" }
        guard !state.isSpoilt else { return "ExpiredProviderToken" }
        let isSame = state.bearer.elementsEqual(token)
        let verdict = isSame && state.generation == generation ? state.verdict : currentVerdict(of: Array(token))
        guard case .valid(let keyIndex, let issuedAt) = verdict else { return "InvalidProviderToken" }
        let now = clock.unixSeconds
        guard issuedAt <= now + 300 else { return "InvalidProviderToken" }
        guard now - issuedAt <= options.maximumTokenAgeSeconds else {
            if options.expiredTokenSpoilsConnection { state.isSpoilt = true }
            return "ExpiredProviderToken"
        }
        let key = keys[keyIndex].key
        guard key.environments.contains(role) else { return "BadEnvironmentKeyIdInToken" }
        if let bound = state.boundKeyID, bound != key.keyID, !key.relatedKeyIDs.contains(bound) {
            return "UnrelatedKeyIdInToken"
        }
        if !isSame {
            let isOtherKey = state.bearerKeyID.map { $0 != key.keyID } ?? false
            guard isOtherKey || isChangeAllowed(to: token, keyID: key.keyID, now: now, state: state) else {
                return "TooManyProviderTokenUpdates"
            }
            state.bearer = Array(token)
            state.changedAt = now
            state.bearerKeyID = key.keyID
            state.boundKeyID = state.boundKeyID ?? key.keyID
        }
        state.verdict = verdict
        state.generation = generation
        return nil
    }

    private func currentVerdict(of token: [UInt8]) -> Verdict {
        if let known = verdicts[token] { return known }
        // Bounded: an attacker of a test double is a test that sends many tokens.
        if verdicts.count >= 1000 { verdicts.removeAll() }
        let verdict = verify(token)
        verdicts[token] = verdict
        return verdict
    }

    private func isChangeAllowed(
        to token: ArraySlice<UInt8>,
        keyID: String,
        now: Int64,
        state: ConnectionState
    ) -> Bool {
        let interval = options.tokenUpdateIntervalSeconds
        guard interval > 0 else { return true }
        if !state.bearer.isEmpty, now - state.changedAt < interval { return false }
        guard options.tokenUpdatesCountAcrossConnections else { return true }
        guard let last = changesByKey[keyID] else {
            changesByKey[keyID] = LastChange(bearer: Array(token), changedAt: now)
            return true
        }
        if last.bearer.elementsEqual(token) { return true }
        guard now - last.changedAt >= interval else { return false }
        changesByKey[keyID] = LastChange(bearer: Array(token), changedAt: now)
        return true
    }

    private func verify(_ token: [UInt8]) -> Verdict {
        guard let parts = JWTParts(token), parts.header["alg"]?.string == "ES256" else { return .invalid }
        guard let keyID = parts.header["kid"]?.string, let team = parts.claims["iss"]?.string,
            let issuedAt = parts.claims["iat"]?.integer
        else { return .invalid }
        guard let index = keys.firstIndex(where: { $0.key.keyID == keyID && $0.key.teamID == team }) else {
            return .invalid
        }
        guard keys[index].crypto.verifiesES256(parts.signed, signature: parts.signature) else { return .invalid }
        return .valid(key: index, issuedAt: issuedAt)
    }

    /// What follows `bearer ` (in any case); nil when the header has another form or is empty.
    static func token(of header: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let scheme: StaticString = "bearer "
        guard header.count > scheme.utf8CodeUnitCount else { return nil }
        let isBearer = scheme.withUTF8Buffer { word in
            unsafe zip(word, header).allSatisfy { $0 == $1 | 0x20 }
        }
        return isBearer ? header.dropFirst(scheme.utf8CodeUnitCount) : nil
    }
}

/// A JSON web token taken apart: nothing is verified yet.
struct JWTParts {
    let header: JSONValue
    let claims: JSONValue
    /// The first two parts with the dot between them, as signed.
    let signed: [UInt8]
    let signature: [UInt8]

    /// Nil unless there are three parts in base64url without padding and the first two are JSON objects.
    init?(_ token: [UInt8]) {
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, !token.contains(UInt8(ascii: "=")) else { return nil }
        let decoded = parts.compactMap { Base64URL.decode(String(decoding: $0, as: UTF8.self)) }
        guard decoded.count == 3, let header = JSONText.parse(decoded[0]), header.members != nil,
            let claims = JSONText.parse(decoded[1]), claims.members != nil
        else { return nil }
        self.header = header
        self.claims = claims
        signed = Array(token[..<parts[1].endIndex])
        signature = decoded[2]
    }
}
