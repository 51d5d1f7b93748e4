import PushCore

/// One row per error code of FCM. `INVALID_ARGUMENT` is judged by its details, see `FCMResponse`.
struct FCMReason: Sendable {
    /// What follows from a code.
    enum Effect: Sendable {
        case dead(DeadToken.Certainty)
        case invalidArgument
        case retry
        /// FCM knows no more either: a few attempts, not the whole ladder.
        case retryFew
        case throttled
        /// FCM's own key towards Apple or a browser maker is refused: concerns such tokens only, renewing ours is no help.
        case thirdPartyKey
    }

    let code: String
    let effect: Effect

    private init(_ code: String, _ effect: Effect) {
        self.code = code
        self.effect = effect
    }

    static let table: [FCMReason] = [
        FCMReason("UNSPECIFIED_ERROR", .retryFew),
        FCMReason("INVALID_ARGUMENT", .invalidArgument),
        FCMReason("UNREGISTERED", .dead(.whereProven)),
        FCMReason("SENDER_ID_MISMATCH", .dead(.orConfiguration)),
        FCMReason("QUOTA_EXCEEDED", .throttled),
        FCMReason("UNAVAILABLE", .retry),
        FCMReason("INTERNAL", .retry),
        FCMReason("THIRD_PARTY_AUTH_ERROR", .thirdPartyKey),
        FCMReason("APNS_AUTH_ERROR", .thirdPartyKey),
    ]
}
