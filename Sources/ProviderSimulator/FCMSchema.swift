/// The kinds of value that FCM's message fields take.
indirect enum FCMKind {
    case string
    case bool
    case integer
    case number
    case stringArray
    case durationArray
    /// Values must be strings; keys that are reserved for FCM are refused where `isData`.
    case stringMap(isData: Bool)
    /// A duration with `s`, 0 up to that many seconds.
    case duration(maximumSeconds: Int64)
    /// One of these names; `ignoringCase` takes lower case too.
    case oneOf(Set<String>, ignoringCase: Bool)
    case message([String: FCMKind])
    /// Any JSON object: payloads that FCM passes on.
    case anyObject

    static let maximumTTL: Int64 = 2_419_200
    private static let fcmOptions = FCMKind.message(["analytics_label": .string])

    /// The request body.
    static let request: [String: FCMKind] = ["message": .message(message), "validate_only": .bool]

    /// `message`, with the names in snake case.
    static let message: [String: FCMKind] = [
        "name": .string, "token": .string, "fid": .string, "topic": .string, "condition": .string,
        "data": .stringMap(isData: true),
        "notification": .message(["title": .string, "body": .string, "image": .string]),
        "fcm_options": fcmOptions,
        "android": .message(android),
        "apns": .message([
            "headers": .stringMap(isData: false), "payload": .anyObject, "live_activity_token": .string,
            "fcm_options": .message(["analytics_label": .string, "image": .string]),
        ]),
        "webpush": .message([
            "headers": .stringMap(isData: false), "data": .stringMap(isData: false), "notification": .anyObject,
            "fcm_options": .message(["link": .string, "analytics_label": .string]),
        ]),
    ]

    private static let android: [String: FCMKind] = [
        "collapse_key": .string, "priority": .oneOf(["NORMAL", "HIGH"], ignoringCase: true),
        "ttl": .duration(maximumSeconds: maximumTTL), "restricted_package_name": .string,
        "data": .stringMap(isData: true), "notification": .message(androidNotification), "fcm_options": fcmOptions,
        "direct_boot_ok": .bool, "bandwidth_constrained_ok": .bool, "restricted_satellite_ok": .bool,
    ]

    private static let androidNotification: [String: FCMKind] = [
        "title": .string, "body": .string, "icon": .string, "sound": .string, "tag": .string,
        "click_action": .string, "channel_id": .string, "ticker": .string, "image": .string, "color": .string,
        "body_loc_key": .string, "title_loc_key": .string, "body_loc_args": .stringArray,
        "title_loc_args": .stringArray, "sticky": .bool, "local_only": .bool, "default_sound": .bool,
        "default_vibrate_timings": .bool, "default_light_settings": .bool, "event_time": .string,
        "notification_priority": .oneOf(
            [
                "PRIORITY_UNSPECIFIED", "PRIORITY_MIN", "PRIORITY_LOW", "PRIORITY_DEFAULT", "PRIORITY_HIGH",
                "PRIORITY_MAX",
            ],
            ignoringCase: false
        ),
        "vibrate_timings": .durationArray,
        "visibility": .oneOf(["VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"], ignoringCase: false),
        "notification_count": .integer,
        "light_settings": .message([
            "color": .message(["red": .number, "green": .number, "blue": .number, "alpha": .number]),
            "light_on_duration": .duration(maximumSeconds: .max), "light_off_duration": .duration(maximumSeconds: .max),
        ]),
        "proxy": .oneOf(["PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"], ignoringCase: false),
        "bypass_proxy_notification": .bool,
    ]
}

/// A field that FCM refuses.
struct FCMViolation: Equatable {
    let field: String
    let description: String
}

/// Walks a request along the schema and collects what FCM would refuse.
struct FCMFieldChecker {
    private(set) var violations: [FCMViolation] = []

    mutating func check(_ value: JSONValue, as kind: FCMKind, at path: String) {
        if value == .null { return }  // null is the same as absent in this dialect
        switch kind {
        case .message(let fields): checkMessage(value, fields, at: path)
        case .stringMap(let isData): checkMap(value, isData: isData, at: path)
        case .stringArray: checkArray(value, of: .string, at: path)
        case .durationArray: checkArray(value, of: .duration(maximumSeconds: .max), at: path)
        case .anyObject: if value.members == nil { refuse(value, "Starting an object on a scalar field", at: path) }
        case .string: if value.string == nil { refuse(value, "TYPE_STRING", at: path) }
        case .bool: if value.bool == nil { refuse(value, "TYPE_BOOL", at: path) }
        case .integer: if value.integer == nil { refuse(value, "TYPE_INT32", at: path) }
        case .number:
            guard case .number = value else { return refuse(value, "TYPE_FLOAT", at: path) }
        case .duration(let maximum): checkDuration(value, maximum: maximum, at: path)
        case .oneOf(let names, let ignoringCase):
            let text = value.string.map { ignoringCase ? $0.uppercased() : $0 }
            if text.map(names.contains) != true { refuse(value, "TYPE_ENUM", at: path) }
        }
    }

    private mutating func refuse(_ value: JSONValue, _ type: String, at path: String) {
        violations.append(
            FCMViolation(field: path, description: "Invalid value at '\(path)' (\(type)), \(Self.shown(value))")
        )
    }

    private mutating func checkMessage(_ value: JSONValue, _ fields: [String: FCMKind], at path: String) {
        guard let members = value.members else { return refuse(value, "an object is expected", at: path) }
        for member in members {
            let name = Self.snakeCase(member.name)
            let memberPath = path.isEmpty ? name : "\(path).\(name)"
            guard let kind = fields[name] else {
                violations.append(
                    FCMViolation(
                        field: path,
                        description: "Invalid JSON payload received. Unknown name \"\(member.name)\" at '\(path)': "
                            + "Cannot find field."
                    )
                )
                continue
            }
            check(member.value, as: kind, at: memberPath)
        }
    }

    private mutating func checkMap(_ value: JSONValue, isData: Bool, at path: String) {
        guard let members = value.members else { return refuse(value, "a map is expected", at: path) }
        for (index, member) in members.enumerated() {
            if member.value.string == nil { refuse(member.value, "TYPE_STRING", at: "\(path)[\(index)].value") }
            if isData, Self.isReserved(member.name) {
                violations.append(FCMViolation(field: path, description: "Invalid data payload key: \(member.name)"))
            }
        }
    }

    private mutating func checkArray(_ value: JSONValue, of kind: FCMKind, at path: String) {
        guard let items = value.array else { return refuse(value, "an array is expected", at: path) }
        for (index, item) in items.enumerated() { check(item, as: kind, at: "\(path)[\(index)]") }
    }

    private mutating func checkDuration(_ value: JSONValue, maximum: Int64, at path: String) {
        guard let text = value.string, let seconds = Self.durationSeconds(text) else {
            return refuse(value, "type.googleapis.com/google.protobuf.Duration", at: path)
        }
        // A fraction above the maximum is above it too.
        let isOver = seconds.whole > maximum || seconds.whole == maximum && seconds.hasFraction
        if isOver { refuse(value, "TTL must be at most \(maximum) seconds", at: path) }
    }

    /// Digits, at most nine decimals, then `s`; not negative.
    static func durationSeconds(_ text: String) -> (whole: Int64, hasFraction: Bool)? {
        guard text.utf8.last == UInt8(ascii: "s") else { return nil }
        let parts = text.dropLast().split(separator: ".", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count),
            parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }),
            let whole = Int64(parts[0])
        else { return nil }
        guard parts.count == 2 else { return (whole, false) }
        guard parts[1].utf8.count <= 9 else { return nil }
        return (whole, parts[1].contains { $0 != "0" })
    }

    /// Keys that FCM keeps for itself.
    static func isReserved(_ key: String) -> Bool {
        key == "from" || key == "message_type" || key.hasPrefix("google") || key.hasPrefix("gcm")
    }

    /// `collapseKey` as `collapse_key`; snake case stays.
    static func snakeCase(_ name: String) -> String {
        guard name.utf8.contains(where: { (0x41...0x5A).contains($0) }) else { return name }
        var out = ""
        for character in name {
            if character.isUppercase { out += "_" }
            out += character.lowercased()
        }
        return out
    }

    private static func shown(_ value: JSONValue) -> String {
        switch value {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .number(let text): text
        case .string(let text): jsonQuoted(String(text.prefix(40)))
        case .array: "an array"
        case .object: "an object"
        }
    }
}
