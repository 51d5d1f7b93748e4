import PushCore

/// Builds the payload and headers of an APNs request.
enum APNsTemplate {
    /// What APNs takes, in bytes of the whole body.
    static let payloadLimit = 4_096

    static func make(
        _ content: Content,
        language: String,
        bundleID: String,
        settings: MessageSettings
    ) -> NotificationTemplate {
        guard let payload = payload(of: content, language: language) else { return .nothing }
        var writer = ByteWriter(capacity: 1_024)
        writer.append(json: payload)
        let pushType = pushType(of: payload, override: content.apns)
        var headers = [
            HeaderField("apns-topic", content.apns.topic ?? topic(of: bundleID, pushType: pushType)),
            HeaderField("apns-push-type", pushType),
            HeaderField("apns-priority", priority(of: content, pushType: pushType)),
            HeaderField("apns-expiration", expiration(settings.expiration)),
        ]
        if let collapseID = settings.collapseID {
            headers.append(HeaderField("apns-collapse-id", collapseID))
        }
        return NotificationTemplate(
            headers: headers,
            body: [.shared(writer.bytes)],
            payloadBytes: writer.count,
            limit: payloadLimit
        )
    }

    /// The payload in one language, or nil where the content has nothing for APNs.
    private static func payload(of content: Content, language: String) -> JSONObject? {
        let hasSomething =
            content.hasText || content.badge != nil || content.sound != nil || content.available
            || !content.data.isEmpty || !content.apns.payload.isEmpty
        guard hasSomething else { return nil }
        var payload = JSONObject()
        payload["aps"] = .object(aps(of: content, language: language))
        for member in content.data.members {
            payload[member.key] = member.value
        }
        payload["url"] = content.url.map(JSONValue.string) ?? payload["url"]
        payload["image"] = content.image.map(JSONValue.string) ?? payload["image"]
        if !content.actions.isEmpty { payload["actions"] = content.actionsJSON }
        if case .increase(let number) = content.badge { payload["badge_increase"] = .number(JSONNumber(number)) }
        payload = payload.merging(content.apns.payload)
        // A push that shows nothing is a background push, and says so.
        if pushType(of: payload, override: content.apns) == "background" {
            var aps = JSONObject()
            if case .object(let present) = payload["aps"] { aps = present }
            if aps["content-available"] == nil {
                aps["content-available"] = 1
                payload["aps"] = .object(aps)
            }
        }
        return payload
    }

    private static func aps(of content: Content, language: String) -> JSONObject {
        var alert = JSONObject()
        alert["title"] = content.title.map { .string($0.text(for: language)) }
        alert["subtitle"] = content.subtitle.map { .string($0.text(for: language)) }
        alert["body"] = content.body.map { .string($0.text(for: language)) }
        var aps = JSONObject()
        if !alert.isEmpty { aps["alert"] = .object(alert) }
        if case .set(let number) = content.badge { aps["badge"] = .number(JSONNumber(number)) }
        aps["sound"] = content.sound.map(sound)
        aps["thread-id"] = content.threadID.map(JSONValue.string)
        aps["category"] = content.category.map(JSONValue.string)
        if content.available { aps["content-available"] = 1 }
        if isMutable(content) { aps["mutable-content"] = 1 }
        aps["interruption-level"] = content.interruptionLevel.map { .string($0.rawValue) }
        aps["relevance-score"] = content.relevance.map(JSONValue.number)
        return aps
    }

    /// An image, and a relative badge, need the app's service extension; so they ask for it unless told not to.
    private static func isMutable(_ content: Content) -> Bool {
        if let mutable = content.mutable { return mutable }
        if case .increase = content.badge { return true }
        return content.image != nil && content.hasText
    }

    private static func sound(_ sound: Content.Sound) -> JSONValue {
        switch sound {
        case .named(let name): return .string(name)
        case .detailed(let name, critical: false, volume: nil): return .string(name)
        case .detailed(let name, let critical, let volume):
            var object = JSONObject()
            object["critical"] = critical ? 1 : 0
            object["name"] = .string(name)
            object["volume"] = volume.map(JSONValue.number)
            return .object(object)
        }
    }

    /// By what the finished payload holds: alert, badge or sound make an alert, a badge alone too.
    private static func pushType(of payload: JSONObject, override: APNsOverride) -> String {
        if let pushType = override.pushType { return pushType }
        guard case .object(let aps) = payload["aps"] else { return "background" }
        let shows = ["alert", "badge", "sound"].contains { aps[$0] != nil }
        return shows ? "alert" : "background"
    }

    private static func priority(of content: Content, pushType: String) -> String {
        if pushType == "background" { return "5" }
        return content.apns.priority ?? (content.priority == .normal ? "5" : "10")
    }

    private static func expiration(_ expiration: MessageSettings.Expiration) -> String {
        switch expiration {
        case .immediate: "0"
        case .at(let epochSeconds): String(epochSeconds)
        }
    }

    /// A bundle identifier that was set with its suffix already keeps it once.
    private static func topic(of bundleID: String, pushType: String) -> String {
        let suffix = topicSuffix(of: pushType)
        return bundleID.hasSuffix(suffix) ? bundleID : bundleID + suffix
    }

    /// What Apple appends to the bundle identifier for a push type; other types use it as it is.
    private static func topicSuffix(of pushType: String) -> String {
        switch pushType {
        case "complication": ".complication"
        case "controls": ".push-type.controls"
        case "fileprovider": ".pushkit.fileprovider"
        case "liveactivity": ".push-type.liveactivity"
        case "location": ".location-query"
        case "pushtotalk": ".voip-ptt"
        case "voip": ".voip"
        case "widgets": ".push-type.widgets"
        default: ""
        }
    }
}
