/// What APNs looks at in a request, one row each. `order` is the one place that says in which order.
///
/// The real order is not documented; this one is the order of the best-known other double of APNs.
enum APNsCheck: CaseIterable {
    case duplicateHeaders
    case messageID
    case method
    case topic
    case collapseID
    case expiration
    case priority
    case pushType
    case path
    case deviceToken
    /// Done by `ProviderTokenVerifier`, which keeps state per connection; here only for its place.
    case authentication
    case topicAllowed
    case payload

    static let order = APNsCheck.allCases

    /// The reason for refusing the request, or nil.
    func fault(_ request: APNsRequest, _ options: APNsOptions) -> String? {
        switch self {
        case .duplicateHeaders: request.slot.hasDuplicates ? "DuplicateHeaders" : nil
        case .messageID: messageIDFault(request)
        case .method: request.slot.equals(.method, "POST") ? nil : "MethodNotAllowed"
        case .topic: topicFault(request)
        case .collapseID: request.slot.length(.collapseID) > 64 ? "BadCollapseId" : nil
        case .expiration: expirationFault(request)
        case .priority: priorityFault(request)
        case .pushType: request.slot.has(.pushType) && request.pushType == nil ? "InvalidPushType" : nil
        case .path: request.isDevicePath ? nil : "BadPath"
        case .deviceToken: deviceTokenFault(request)
        case .authentication: nil
        case .topicAllowed: topicAllowedFault(request, options)
        case .payload: payloadFault(request, options)
        }
    }

    private func messageIDFault(_ request: APNsRequest) -> String? {
        guard let id = request.slot.bytes(.messageID) else { return nil }
        return isUUID(id) ? nil : "BadMessageId"
    }

    private func topicFault(_ request: APNsRequest) -> String? {
        guard let topic = request.slot.bytes(.topic), !topic.isEmpty else { return "MissingTopic" }
        let isWellFormed = topic.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
        }
        return isWellFormed ? nil : "BadTopic"
    }

    private func expirationFault(_ request: APNsRequest) -> String? {
        guard let text = request.slot.bytes(.expiration) else { return nil }
        let isNumber = !text.isEmpty && text.count <= 12 && text.allSatisfy { (0x30...0x39).contains($0) }
        return isNumber ? nil : "BadExpirationDate"
    }

    private func priorityFault(_ request: APNsRequest) -> String? {
        let slot = request.slot
        if slot.has(.priority) {
            guard slot.equals(.priority, "10") || slot.equals(.priority, "5") || slot.equals(.priority, "1") else {
                return "BadPriority"
            }
        }
        // An absent priority means 10, which a background push must not have.
        guard let needed = request.pushType?.priority else { return nil }
        return slot.equals(.priority, needed) ? nil : "BadPriority"
    }

    private func deviceTokenFault(_ request: APNsRequest) -> String? {
        let token = request.token
        guard !token.isEmpty else { return "MissingDeviceToken" }
        guard token.count.isMultiple(of: 2), (16...400).contains(token.count) else { return "BadDeviceToken" }
        return token.allSatisfy(isHexDigit) ? nil : "BadDeviceToken"
    }

    private func topicAllowedFault(_ request: APNsRequest, _ options: APNsOptions) -> String? {
        guard let topic = request.slot.bytes(.topic) else { return nil }
        let found = PushTypeRule.suffix(of: topic)
        let length = found?.utf8CodeUnitCount ?? 0
        if let type = request.pushType {
            let hasRight =
                switch (type.suffix, found) {
                case (nil, nil): true
                case (let wanted?, _?): topic.hasSuffix(wanted)
                default: false
                }
            guard hasRight else { return "TopicDisallowed" }
        }
        guard let allowed = options.topics else { return nil }
        return allowed.contains(String(decoding: topic.dropLast(length), as: UTF8.self)) ? nil : "TopicDisallowed"
    }

    private func payloadFault(_ request: APNsRequest, _ options: APNsOptions) -> String? {
        let bytes = request.slot.payloadBytes
        guard bytes > 0 else { return "PayloadEmpty" }
        let isVoIP = request.pushType?.isVoIP ?? false
        guard bytes <= (isVoIP ? options.maximumVoIPPayloadBytes : options.maximumPayloadBytes) else {
            return "PayloadTooLarge"
        }
        return JSONText.shape(of: request.slot.body) == .object(hasAps: true) ? nil : "BadPayload"
    }
}

/// A request to APNs, with the parts that several checks need found once.
struct APNsRequest {
    let slot: StreamSlot
    let isDevicePath: Bool
    /// The device token as sent; empty when there is none.
    let token: ArraySlice<UInt8>
    /// Nil when the header is absent or unknown.
    let pushType: PushTypeRule?

    private static let prefix: StaticString = "/3/device/"

    init(slot: StreamSlot) {
        self.slot = slot
        let path = slot.bytes(.path) ?? []
        let length = Self.prefix.utf8CodeUnitCount
        let startsRight =
            path.count >= length
            && Self.prefix.withUTF8Buffer { unsafe path.prefix(length).elementsEqual($0) }
        let rest = startsRight ? path.dropFirst(length) : []
        // `/3/device` without the slash has no token either; a further slash is another path.
        let isBare = path.elementsEqual("/3/device".utf8)
        isDevicePath = isBare || startsRight && !rest.contains(UInt8(ascii: "/"))
        token = isDevicePath ? rest : []
        pushType = PushTypeRule.all.first { slot.equals(.pushType, $0.name) }
    }
}

func isHexDigit(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x46).contains(byte) || (0x61...0x66).contains(byte)
}

/// True for 8-4-4-4-12 hex digits.
func isUUID(_ text: ArraySlice<UInt8>) -> Bool {
    guard text.count == 36 else { return false }
    for (offset, byte) in text.enumerated() {
        switch offset {
        case 8, 13, 18, 23: guard byte == UInt8(ascii: "-") else { return false }
        default: guard isHexDigit(byte) else { return false }
        }
    }
    return true
}
