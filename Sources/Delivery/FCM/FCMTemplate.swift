import PushCore

/// Builds the body of an FCM request.
enum FCMTemplate {
    /// What FCM takes. We measure the compact `message` without its token and with the longest ttl: a little more than
    /// Google counts, and the same for every recipient.
    static let payloadLimit = 4_096
    /// FCM's longest ttl: 28 days. A longer one is sent as this.
    static let longestSeconds: Int64 = 2_419_200

    static func make(
        _ content: Content,
        language: String,
        validateOnly: Bool,
        settings: MessageSettings
    ) -> NotificationTemplate {
        guard let message = message(of: content, language: language, collapseID: settings.collapseID) else {
            return .nothing
        }
        var prefix = ByteWriter(capacity: 1_024)
        prefix.append("{\"message\":{")
        for member in message.members where member.key != "android" {
            prefix.append(jsonString: member.key)
            prefix.append(":")
            prefix.append(json: member.value)
            prefix.append(",")
        }
        prefix.append("\"android\":{\"ttl\":\"")
        var middle = ByteWriter(capacity: 1_024)
        middle.append("s\"")
        if case .object(let android) = message["android"] {
            for member in android.members {
                middle.append(",")
                middle.append(jsonString: member.key)
                middle.append(":")
                middle.append(json: member.value)
            }
        }
        middle.append("},\"token\":\"")
        let isImmediate = settings.expiration == .immediate
        let ends = validateOnly ? "\"},\"validate_only\":true}" : "\"}}"
        let ttl: [TemplatePart] =
            isImmediate
            ? [.shared(prefix.bytes + [UInt8(ascii: "0")] + middle.bytes)]
            : [.shared(prefix.bytes), .secondsLeft, .shared(middle.bytes)]
        return NotificationTemplate(
            headers: [],
            body: ttl + [.token, .shared(Array(ends.utf8))],
            payloadBytes: payloadBytes(prefix: prefix.count, middle: middle.count),
            limit: payloadLimit
        )
    }

    // The parts hold `{"message":` in front of the message and `,"token":"` at its end, where its brace would be.
    private static func payloadBytes(prefix: Int, middle: Int) -> Int {
        let opening = "{\"message\":".utf8.count
        let closing = ",\"token\":\"".utf8.count - "}".utf8.count
        return prefix - opening + "2419200".utf8.count + middle - closing
    }

    /// The message in one language without token and ttl, or nil where the content has nothing for FCM.
    private static func message(of content: Content, language: String, collapseID: String?) -> JSONObject? {
        let shows = content.title != nil || content.body != nil
        let data = data(of: content, shows: shows)
        guard shows || content.available || !data.isEmpty || !content.fcm.isEmpty else { return nil }
        var message = JSONObject()
        if shows {
            var notification = JSONObject()
            notification["title"] = content.title.map { .string($0.text(for: language)) }
            notification["body"] = content.body.map { .string($0.text(for: language)) }
            notification["image"] = content.image.map(JSONValue.string)
            message["notification"] = .object(notification)
        }
        if !data.isEmpty { message["data"] = .object(data) }
        message["android"] = .object(android(of: content, shows: shows, collapseID: collapseID))
        return message.merging(content.fcm)
    }

    /// FCM takes texts only: other values go as their compact JSON.
    private static func data(of content: Content, shows: Bool) -> JSONObject {
        var data = JSONObject()
        for member in content.data.members {
            if case .string = member.value {
                data[member.key] = member.value
            } else {
                data[member.key] = .string(member.value.compactText)
            }
        }
        // Nothing to open or to press without anything to see or to tell.
        guard shows || content.badge != nil || content.available || !data.isEmpty else { return data }
        if let url = content.url { data["url"] = .string(url) }
        if !content.actions.isEmpty { data["actions"] = .string(content.actionsJSON.compactText) }
        if !shows {
            data["image"] = content.image.map(JSONValue.string) ?? data["image"]
            if case .set(let number) = content.badge { data["badge"] = .string(String(number)) }
        }
        return data
    }

    private static func android(of content: Content, shows: Bool, collapseID: String?) -> JSONObject {
        var android = JSONObject()
        let isHigh = content.priority.map { $0 == .high } ?? shows
        android["priority"] = isHigh ? "HIGH" : "NORMAL"
        android["collapse_key"] = collapseID.map(JSONValue.string)
        guard shows else { return android }
        var notification = JSONObject()
        notification["icon"] = content.icon.map(JSONValue.string)
        notification["color"] = content.color.map(JSONValue.string)
        notification["sound"] = content.sound.map { sound in
            switch sound {
            case .named(let name), .detailed(let name, _, _): .string(name)
            }
        }
        notification["channel_id"] = content.androidChannel.map(JSONValue.string)
        notification["tag"] = collapseID.map(JSONValue.string)
        switch content.badge {
        case .set(let number): notification["notification_count"] = .number(JSONNumber(number))
        case .increase(let number) where number > 0: notification["notification_count"] = .number(JSONNumber(number))
        case .increase, nil: break
        }
        if !notification.isEmpty { android["notification"] = .object(notification) }
        return android
    }
}
