/// The reasons of APNs with their statuses.
package enum APNsReasons {
    /// Status by reason.
    package static let statuses: [String: Int] = [
        "BadCollapseId": 400, "BadDeviceToken": 400, "BadExpirationDate": 400, "BadMessageId": 400,
        "BadPriority": 400, "BadTopic": 400, "DeviceTokenNotForTopic": 400, "DuplicateHeaders": 400,
        "IdleTimeout": 400, "InvalidPushType": 400, "MissingDeviceToken": 400, "MissingTopic": 400,
        "PayloadEmpty": 400, "TopicDisallowed": 400,
        "BadCertificate": 403, "BadCertificateEnvironment": 403, "BadEnvironmentKeyIdInToken": 403,
        "ExpiredProviderToken": 403, "Forbidden": 403, "InvalidProviderToken": 403, "MissingProviderToken": 403,
        "UnrelatedKeyIdInToken": 403,
        "BadPath": 404, "MethodNotAllowed": 405, "ExpiredToken": 410, "Unregistered": 410,
        "PayloadTooLarge": 413, "TooManyProviderTokenUpdates": 429, "TooManyRequests": 429,
        "InternalServerError": 500, "ServiceUnavailable": 503, "Shutdown": 503,
    ]

    /// The status that goes with a reason; 400 for one that APNs does not have.
    package static func status(of reason: String) -> Int { statuses[reason] ?? 400 }

    /// The answer for a reason, with a time stamp in milliseconds where given.
    static func decision(_ reason: String, status: Int? = nil, timestamp: Int64? = nil) -> Decision {
        let status = status ?? Self.status(of: reason)
        let stamp = timestamp.map { ",\"timestamp\":\($0)" } ?? ""
        return .json(status: status, reason: reason, "{\"reason\":\(jsonQuoted(reason))\(stamp)}")
    }
}

/// What the push type of a request asks of topic, priority and size.
struct PushTypeRule {
    let name: StaticString
    /// What the topic must end with; nil when the bundle id stands alone (or, for `mdm`, is something else).
    let suffix: StaticString?
    /// The only priority allowed, if there is one.
    let priority: StaticString?
    let isVoIP: Bool

    private init(_ name: StaticString, suffix: StaticString? = nil, priority: StaticString? = nil, isVoIP: Bool = false)
    {
        self.name = name
        self.suffix = suffix
        self.priority = priority
        self.isVoIP = isVoIP
    }

    static let all: [PushTypeRule] = [
        PushTypeRule("alert"),
        PushTypeRule("background", priority: "5"),
        PushTypeRule("voip", suffix: ".voip", isVoIP: true),
        PushTypeRule("complication", suffix: ".complication"),
        PushTypeRule("controls", suffix: ".push-type.controls"),
        PushTypeRule("fileprovider", suffix: ".pushkit.fileprovider"),
        PushTypeRule("liveactivity", suffix: ".push-type.liveactivity"),
        PushTypeRule("location", suffix: ".location-query"),
        PushTypeRule("mdm"),
        PushTypeRule("pushtotalk", suffix: ".voip-ptt"),
        PushTypeRule("widgets", suffix: ".push-type.widgets"),
    ]

    /// The rule whose suffix a topic has; nil for a bare bundle id.
    static func suffix(of topic: ArraySlice<UInt8>) -> StaticString? {
        for rule in all {
            guard let suffix = rule.suffix, topic.hasSuffix(suffix) else { continue }
            return suffix
        }
        return nil
    }
}

extension ArraySlice<UInt8> {
    func hasSuffix(_ suffix: StaticString) -> Bool {
        let length = suffix.utf8CodeUnitCount
        guard count > length else { return false }
        return suffix.withUTF8Buffer { unsafe self.suffix(length).elementsEqual($0) }
    }
}
