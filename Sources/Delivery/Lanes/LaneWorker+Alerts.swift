import PushCore
import Telemetry

// Refusals that go on until somebody mends something or looks it up. Their messages have outcomes like any others.
extension LaneWorker {
    /// A campaign brings the same refusal a million times: one warning stands for those of this time.
    private static let alertInterval: Duration = .seconds(600)

    /// Warns of what a provider's answer says of more than its message; a status of 0 is none.
    func raise(_ alert: Verdict.Alert, reason: String, status: Int, of credential: ProviderCredential) {
        let now = ContinuousClock.now
        if let last = alerts[credential.version]?[alert], now - last < Self.alertInterval { return }
        alerts[credential.version, default: [:]][alert] = now
        var metadata: LogMetadata = [
            .credentialID: .describing(credential.id), .appID: .describing(credential.app),
            .providerReason: .text(reason), .errorMessage: .text(alert.advice),
        ]
        if status > 0 { metadata[.httpStatus] = .number(status) }
        logger.warning(alert.message, metadata)
    }
}

extension Verdict.Alert {
    fileprivate var message: StaticString {
        switch self {
        case .unknownReason: "A provider refuses messages for a reason that is not known here"
        case .goneWithoutWord: "A provider calls tokens gone without a reason: their devices are kept"
        case .silence: "A provider does not answer messages in time"
        case .thirdPartyKey: "FCM cannot hand messages on to Apple or a browser maker"
        }
    }

    fileprivate var advice: String {
        switch self {
        case .unknownReason: "Look the reason up in the provider's documentation; such messages end as rejected"
        case .goneWithoutWord: "Look for a proxy on the way that answers in the provider's place"
        case .silence: "Look at the network and the provider's status; on_doubt says whether they are sent again"
        case .thirdPartyKey: "Mend the APNs key or the web push key in the Firebase project's settings"
        }
    }
}
