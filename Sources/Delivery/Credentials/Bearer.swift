import PushCore

/// What requests of a credential carry in `authorization`, the same text in every process.
struct Bearer: Sendable, Equatable {
    /// The whole value of the header field.
    let value: [UInt8]
    let issuedAt: WallClock.Instant
    /// The provider refuses it from then on.
    let expiresAt: WallClock.Instant

    /// The token itself, as it is sealed in `peal.provider_token`.
    let token: [UInt8]

    /// The word before the token: each provider is sent the form that its own documents show.
    enum Scheme: String, Sendable {
        case apns = "bearer "
        case google = "Bearer "
    }

    init(_ scheme: Scheme, token: [UInt8], issuedAt: WallClock.Instant, expiresAt: WallClock.Instant) {
        self.token = token
        value = Array(scheme.rawValue.utf8) + token
        self.issuedAt = issuedAt
        self.expiresAt = expiresAt
    }
}

/// Whether there is a bearer to send with.
enum BearerAnswer: Sendable, Equatable {
    case bearer(Bearer)
    case unavailable(BearerUnavailable)
}

/// Why there is no bearer now.
struct BearerUnavailable: Sendable, Equatable {
    /// In snake_case or the provider's own word.
    let reason: String
    /// What happened and what to do about it.
    let detail: String
    /// Nothing is asked of the provider before.
    let retryAfter: Duration
    /// The provider said no to the account again and again; waiting will not help by itself.
    let isRefusal: Bool
}

/// When a bearer is renewed.
struct BearerSchedule: Sendable {
    /// APNs takes a token for an hour and none that is newer than 20 minutes in its place.
    static let apnsLifetime: Duration = .seconds(3_600)
    static let apnsShortestAge: Duration = .seconds(1_200)
    /// Between 45 and 50 minutes, so that processes do not all come at once.
    let apnsRefreshAge: Duration

    init(apnsRefreshAge: Duration = .seconds(Int64.random(in: 2_700...2_940))) {
        self.apnsRefreshAge = apnsRefreshAge
    }

    /// Whether a bearer serves for now without a new one being fetched.
    func isFresh(_ bearer: Bearer, of account: ProviderCredential.Account, now: WallClock.Instant) -> Bool {
        switch account {
        case .apns:
            return now - bearer.issuedAt < apnsRefreshAge
        case .fcm:
            let lifetime = bearer.expiresAt - bearer.issuedAt
            return bearer.expiresAt - now > min(.seconds(300), lifetime / 2)
        }
    }
}
