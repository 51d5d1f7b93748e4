package import PushCore

extension Content {
    static let knownKeys = [
        "title", "subtitle", "body", "data", "url", "image", "icon", "color", "actions", "badge", "sound", "category",
        "thread_id", "android_channel", "priority", "interruption_level", "relevance", "mutable", "available", "call",
        "apns", "fcm",
    ]
    static let knownCallKeys = ["call", "data"]
    static let actionLimit = 3
    static let badgeLimit = Int(Int32.max)

    /// Checks a content and takes it in. Refuses unknown keys, wrong types and a content with nothing to send, by path.
    package static func parse(_ value: JSONValue, kind: Kind = .push) throws(ContentError) -> Content {
        guard case .object(let object) = value else {
            throw ContentError(path: "content", problem: "must be an object, found \(value.kindName)")
        }
        let reader = FieldReader(path: "content", object: object)
        try reader.refuseUnknownKeys(known: knownKeys)
        switch kind {
        case .push:
            if reader.value("call") != nil { throw reader.failure("call", "is only for jobs of kind call") }
        case .call:
            for member in object.members where !knownCallKeys.contains(member.key) && member.value != .null {
                throw reader.failure(member.key, "is not for jobs of kind call")
            }
            if reader.value("call") == nil { throw reader.failure("call", "is missing") }
        }
        let content = try Content(reading: reader)
        try content.refuseRepeatedData()
        guard content.call != nil || content.hasSomethingToSend else {
            throw ContentError(path: "content", problem: "has nothing to send")
        }
        return content
    }

    private init(reading reader: FieldReader) throws(ContentError) {
        title = try LocalizedText.parse("title", of: reader)
        subtitle = try LocalizedText.parse("subtitle", of: reader)
        body = try LocalizedText.parse("body", of: reader)
        data = try Self.parseData(reader)
        url = try reader.text("url")
        image = try reader.text("image")
        icon = try reader.text("icon")
        color = try Self.parseColor(reader)
        actions = try Self.parseActions(reader)
        badge = try Self.parseBadge(reader)
        sound = try Self.parseSound(reader)
        category = try reader.text("category")
        threadID = try reader.text("thread_id")
        androidChannel = try reader.text("android_channel")
        priority = try reader.word("priority", as: Priority.self)
        interruptionLevel = try reader.word("interruption_level", as: InterruptionLevel.self)
        relevance = try reader.share("relevance")
        mutable = try reader.boolean("mutable")
        available = try reader.boolean("available") ?? false
        if let reader = try reader.object("call") { call = try CallContent.parse(reader) } else { call = nil }
        if let reader = try reader.object("apns") { apns = try APNsOverride.parse(reader) } else { apns = .none }
        if let reader = try reader.object("fcm") { fcm = try FCMOverride.parse(reader) } else { fcm = JSONObject() }
        if case .increase = badge, !hasText {
            throw reader.failure("badge.increase", "needs a title, subtitle or body")
        }
    }

    /// Whether there is a text to show.
    var hasText: Bool { title != nil || subtitle != nil || body != nil }

    private var hasSomethingToSend: Bool {
        hasText || badge != nil || sound != nil || available || !data.isEmpty || !apns.payload.isEmpty || !fcm.isEmpty
    }

    private static func parseData(_ reader: FieldReader) throws(ContentError) -> JSONObject {
        guard let data = try reader.object("data") else { return JSONObject() }
        for member in data.object.members {
            if let problem = ReservedKey.problem(member.key) { throw data.failure(member.key, problem) }
            if member.value == .null { throw data.failure(member.key, "must not be null") }
        }
        return data.object
    }

    /// `url`, `image`, `actions` and `badge` reach the app beside the data: the same key there would be lost.
    private func refuseRepeatedData() throws(ContentError) {
        var written: [(key: String, field: String)] = []
        if url != nil { written.append(("url", "url")) }
        if image != nil { written.append(("image", "image")) }
        if !actions.isEmpty { written.append(("actions", "actions")) }
        switch badge {
        case .set: written.append(("badge", "badge"))
        case .increase: written.append(("badge_increase", "badge"))
        case nil: break
        }
        for (key, field) in written where data[key] != nil {
            throw ContentError(path: "content.data.\(key)", problem: "is also written by content.\(field)")
        }
    }

    private static func parseColor(_ reader: FieldReader) throws(ContentError) -> String? {
        guard let color = try reader.text("color") else { return nil }
        let digits = color.utf8.dropFirst()
        let isColor = color.utf8.first == UInt8(ascii: "#") && digits.count == 6
        guard isColor, digits.allSatisfy({ Hex.value(ofDigit: $0) != nil }) else {
            throw reader.failure("color", "must be a colour such as #1a2b3c")
        }
        return color
    }

    private static func parseActions(_ reader: FieldReader) throws(ContentError) -> [Action] {
        guard let value = reader.value("actions") else { return [] }
        guard case .array(let elements) = value else { throw reader.wrongType("actions", "an array", value) }
        guard elements.count <= actionLimit else {
            throw reader.failure("actions", "must hold at most \(actionLimit), found \(elements.count)")
        }
        var actions: [Action] = []
        for (position, element) in elements.enumerated() {
            let name = "actions[\(position)]"
            guard case .object(let object) = element else { throw reader.wrongType(name, "an object", element) }
            let fields = FieldReader(path: "\(reader.path).\(name)", object: object)
            try fields.refuseUnknownKeys(known: ["id", "title", "url"])
            guard let id = try fields.text("id") else { throw fields.failure("id", "is missing") }
            guard let title = try fields.text("title") else { throw fields.failure("title", "is missing") }
            guard !actions.contains(where: { $0.id.utf8.elementsEqual(id.utf8) }) else {
                throw fields.failure("id", "is used twice")
            }
            actions.append(Action(id: id, title: title, url: try fields.text("url")))
        }
        return actions
    }

    private static func parseBadge(_ reader: FieldReader) throws(ContentError) -> Badge? {
        guard let value = reader.value("badge") else { return nil }
        guard case .object(let object) = value else {
            return .set(try FieldReader.wholeNumber(value, path: "\(reader.path).badge", in: 0...badgeLimit))
        }
        let fields = FieldReader(path: "\(reader.path).badge", object: object)
        try fields.refuseUnknownKeys(known: ["set", "increase"])
        let set = try fields.wholeNumber("set", in: 0...badgeLimit)
        let increase = try fields.wholeNumber("increase", in: -badgeLimit...badgeLimit)
        switch (set, increase) {
        case (let number?, nil): return .set(number)
        case (nil, let number?): return .increase(number)
        default: throw reader.failure("badge", "needs either set or increase")
        }
    }

    private static func parseSound(_ reader: FieldReader) throws(ContentError) -> Sound? {
        guard let value = reader.value("sound") else { return nil }
        switch value {
        case .string(let name):
            guard !name.isEmpty else { throw reader.failure("sound", "must not be empty") }
            return .named(name)
        case .object(let object):
            let fields = FieldReader(path: "\(reader.path).sound", object: object)
            try fields.refuseUnknownKeys(known: ["name", "critical", "volume"])
            return .detailed(
                name: try fields.text("name") ?? "default",
                critical: try fields.boolean("critical") ?? false,
                volume: try fields.share("volume")
            )
        default: throw reader.wrongType("sound", "text or an object", value)
        }
    }
}
