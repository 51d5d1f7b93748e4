import PushCore

/// One row per reason that APNs documents or was seen to give.
struct APNsReason: Sendable {
    /// What follows from a reason.
    enum Effect: Sendable {
        case dead(DeadToken.Certainty)
        case deadSinceTimestamp
        case payload
        case credential(replacesConnection: Bool)
        /// The topic is refused, and with it the credential, unless the content says another topic or push type.
        case topic
        case refresh(replacesConnection: Bool)
        case retry(RetryAdvice, replacesConnection: Bool)
        case throttled(RetryAdvice, replacesConnection: Bool)
    }

    let status: Int
    let reason: String
    let effect: Effect

    private init(_ status: Int, _ reason: String, _ effect: Effect) {
        self.status = status
        self.reason = reason
        self.effect = effect
    }

    /// Said of a provider token that is older than an hour, by Apple's clock.
    static let expiredProviderToken = "ExpiredProviderToken"

    /// Said of a provider token that was changed too often on its connection.
    static let tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"

    /// What one device gets too much of comes no sooner than a second later.
    static let devicePause = RetryAdvice(.device, minimum: .seconds(1))

    static let table: [APNsReason] = [
        APNsReason(400, "BadCollapseId", .payload),
        APNsReason(400, "BadDeviceToken", .dead(.orConfiguration)),
        APNsReason(400, "BadExpirationDate", .payload),
        APNsReason(400, "BadMessageId", .payload),
        APNsReason(400, "BadPriority", .payload),
        APNsReason(400, "BadTopic", .topic),
        APNsReason(400, "DeviceTokenNotForTopic", .dead(.orConfiguration)),
        APNsReason(400, "DuplicateHeaders", .payload),
        APNsReason(400, "IdleTimeout", .retry(RetryAdvice(.connection), replacesConnection: true)),
        APNsReason(400, "InvalidPushType", .payload),
        APNsReason(400, "MissingDeviceToken", .payload),
        APNsReason(400, "MissingTopic", .topic),
        APNsReason(400, "PayloadEmpty", .payload),
        APNsReason(400, "TopicDisallowed", .topic),
        APNsReason(403, "BadCertificate", .credential(replacesConnection: true)),
        APNsReason(403, "BadCertificateEnvironment", .credential(replacesConnection: true)),
        APNsReason(403, "BadEnvironmentKeyIdInToken", .credential(replacesConnection: true)),
        APNsReason(403, "BadEnvironmentKeyInToken", .credential(replacesConnection: true)),
        APNsReason(403, expiredProviderToken, .refresh(replacesConnection: true)),
        APNsReason(403, "Forbidden", .topic),
        APNsReason(403, "InvalidProviderToken", .credential(replacesConnection: false)),
        APNsReason(403, "MissingProviderToken", .credential(replacesConnection: false)),
        APNsReason(403, "UnrelatedKeyIdInToken", .retry(RetryAdvice(.connection), replacesConnection: true)),
        APNsReason(404, "BadPath", .payload),
        APNsReason(405, "MethodNotAllowed", .payload),
        APNsReason(410, "ExpiredToken", .deadSinceTimestamp),
        APNsReason(410, "Unregistered", .deadSinceTimestamp),
        APNsReason(413, "PayloadTooLarge", .payload),
        // The provider token in hand stays: another one would only be another change.
        APNsReason(
            429,
            tooManyProviderTokenUpdates,
            .throttled(RetryAdvice(.provider, minimum: .seconds(1_200)), replacesConnection: true)
        ),
        APNsReason(429, "TooManyRequests", .throttled(devicePause, replacesConnection: false)),
        APNsReason(500, "InternalServerError", .retry(RetryAdvice(.provider), replacesConnection: false)),
        APNsReason(503, "ServiceUnavailable", .retry(RetryAdvice(.provider), replacesConnection: false)),
        APNsReason(503, "Shutdown", .retry(RetryAdvice(.connection), replacesConnection: true)),
    ]
}
