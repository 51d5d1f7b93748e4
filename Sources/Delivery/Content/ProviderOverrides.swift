package import PushCore

/// The raw part of a content for APNs: a merge patch over the payload that peal builds, and a few headers.
package struct APNsOverride: Sendable, Equatable {
    /// Applied to the payload by RFC 7386.
    package let payload: JSONObject
    package let pushType: String?
    package let topic: String?
    package let priority: String?

    /// Whether it says for which app a message is, or what kind of push it is, which has a topic of its own.
    var hasOwnTopic: Bool { topic != nil || pushType != nil }

    static let none = APNsOverride(payload: JSONObject(), pushType: nil, topic: nil, priority: nil)
    static let knownHeaders = ["apns-push-type", "apns-topic", "apns-priority"]

    static func parse(_ reader: FieldReader) throws(ContentError) -> APNsOverride {
        var payload = reader.object
        payload["headers"] = nil
        if let aps = payload["aps"] {
            guard case .object = aps else { throw reader.wrongType("aps", "an object", aps) }
        }
        guard let headers = try reader.object("headers") else {
            return APNsOverride(payload: payload, pushType: nil, topic: nil, priority: nil)
        }
        try headers.refuseUnknownKeys(known: knownHeaders)
        let pushType = try headers.text("apns-push-type")
        if let pushType {
            guard pushType.utf8.allSatisfy({ (0x61...0x7A).contains($0) || $0 == UInt8(ascii: "-") }) else {
                throw headers.failure("apns-push-type", "must be lower-case letters and hyphens")
            }
            if pushType == "voip" { throw headers.failure("apns-push-type", "is only for jobs of kind call") }
        }
        let topic = try headers.text("apns-topic")
        if let topic {
            guard topic.utf8.count <= 255, topic.utf8.allSatisfy(isTopicByte) else {
                throw headers.failure("apns-topic", "must be letters, digits, hyphens and dots, at most 255")
            }
        }
        let priority = try headers.text("apns-priority")
        if let priority {
            guard ["1", "5", "10"].contains(priority) else {
                throw headers.failure("apns-priority", "must be one of 1, 5, 10")
            }
            guard pushType != "background" || priority == "5" else {
                throw headers.failure("apns-priority", "must be 5 for a background push")
            }
        }
        return APNsOverride(payload: payload, pushType: pushType, topic: topic, priority: priority)
    }

    private static func isTopicByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}

/// The raw part of a content for FCM: a merge patch over the message object that peal builds.
enum FCMOverride {
    /// Whether a patch says for which app a message is: by package, or by what goes on to APNs.
    static func hasOwnTarget(_ patch: JSONObject) -> Bool {
        if patch["apns"] != nil { return true }
        guard case .object(let android) = patch["android"] else { return false }
        return android["restricted_package_name"] != nil
    }

    static func parse(_ reader: FieldReader) throws(ContentError) -> JSONObject {
        for target in ["token", "fid", "topic", "condition"] where reader.object[target] != nil {
            throw reader.failure(target, "is not allowed: the audience says who gets the message")
        }
        try checkData(reader)
        if let notification = reader.object["notification"] {
            switch notification {
            case .object, .null: break
            default: throw reader.wrongType("notification", "an object", notification)
            }
        }
        if let android = reader.object["android"] {
            guard case .object(let members) = android else { throw reader.wrongType("android", "an object", android) }
            let inner = FieldReader(path: "\(reader.path).android", object: members)
            if members["ttl"] != nil { throw inner.failure("ttl", "is not allowed: the job's ttl says it") }
            if members["collapse_key"] != nil {
                throw inner.failure("collapse_key", "is not allowed: the job's collapse_id says it")
            }
            try checkData(inner)
        }
        return reader.object
    }

    private static func checkData(_ reader: FieldReader) throws(ContentError) {
        guard let data = try reader.object("data") else { return }
        for member in data.object.members {
            switch member.value {
            case .string, .null: break
            default: throw data.wrongType(member.key, "text", member.value)
            }
            if let problem = ReservedKey.problem(member.key) { throw data.failure(member.key, problem) }
        }
    }
}

/// Keys of `data` that a provider would refuse or overwrite. Only those that are known to be refused.
enum ReservedKey {
    static func problem(_ key: String) -> String? {
        switch key {
        case "aps": "is reserved by APNs"
        case "from", "message_type": "is reserved by FCM"
        default: key.hasPrefix("google") || key.hasPrefix("gcm") ? "is reserved by FCM" : nil
        }
    }
}
