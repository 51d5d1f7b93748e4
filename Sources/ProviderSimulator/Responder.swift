import CNghttp2

/// Turns decisions into HTTP/2 answers: status, apns-id, content type, body.
@safe
final class Responder {
    private static let status: StaticString = ":status"
    private static let apnsID: StaticString = "apns-id"
    private static let uniqueID: StaticString = "apns-unique-id"
    private static let ok: StaticString = "200"
    private static let contentType: StaticString = "content-type"
    private static let date: StaticString = "date"
    private static let json: StaticString = "application/json; charset=UTF-8"

    /// The body of each accepted FCM message in quick runs.
    private let quickBody: [UInt8]
    private var random: UInt64
    private let headers = UnsafeMutableBufferPointer<nghttp2_nv>.allocate(capacity: 7)
    /// Nil when answers carry no `date`.
    private let clock: SimulatorClock?
    private var dateSecond = Int64.min
    private var dateText: [UInt8] = []

    /// - Parameter clock: gives the answers a `date`; nil gives them none.
    init(projectID: String, clock: SimulatorClock?) {
        self.clock = clock
        quickBody = Array("{\"name\":\(jsonQuoted("projects/\(projectID)/messages/0:1700000000000000%quick"))}".utf8)
        random = UInt64.random(in: 1 ... .max)
    }

    deinit { unsafe headers.deallocate() }

    /// 200, with nothing allocated: the answer to nearly every request.
    func accept(_ slot: StreamSlot, role: ProviderRole, on http: HTTP2Server) {
        unsafe headers[0] = unsafe field(Self.status, Self.ok)
        var count = 2
        if role.isAPNs {
            fillID(slot)
            unsafe headers[1] = unsafe field(Self.apnsID, slot.idText, indexed: false)
            if role == .apnsSandbox {
                unsafe writeUUID(into: slot.uniqueIDText, isUpper: false)
                unsafe headers[2] = unsafe field(Self.uniqueID, slot.uniqueIDText, indexed: false)
                count = 3
            }
        } else {
            slot.answerBody = quickBody
            unsafe headers[1] = unsafe field(Self.contentType, Self.json)
        }
        refreshDate()
        unsafe dateText.withUnsafeMutableBufferPointer { text in
            if !text.isEmpty {
                // Copied by the session, since the text changes with each second; the same text is indexed.
                unsafe headers[count] = unsafe nghttp2_nv(
                    name: UnsafeMutablePointer(mutating: Self.date.utf8Start),
                    value: text.baseAddress,
                    namelen: Self.date.utf8CodeUnitCount,
                    valuelen: text.count,
                    flags: UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue)
                )
                count += 1
            }
            unsafe http.respond(
                stream: slot.streamID,
                headers: UnsafeBufferPointer(rebasing: headers[..<count]),
                hasBody: !role.isAPNs
            )
        }
    }

    private func refreshDate() {
        guard let clock else { return }
        let now = clock.unixSeconds
        guard now != dateSecond else { return }
        dateSecond = now
        dateText = Array(httpDate(now).utf8)
    }

    /// Any other answer: `slot.decision` with `slot.answerBody`.
    func answer(_ slot: StreamSlot, role: ProviderRole, on http: HTTP2Server) {
        let decision = slot.decision
        var pairs: [(name: String, value: String)] = [(":status", String(decision.status))]
        if role.isAPNs {
            fillID(slot)
            pairs.append(("apns-id", unsafe String(decoding: slot.idText, as: UTF8.self)))
        }
        if let contentType = decision.contentType { pairs.append(("content-type", contentType)) }
        refreshDate()
        if !dateText.isEmpty { pairs.append(("date", String(decoding: dateText, as: UTF8.self))) }
        if let retryAfter = decision.retryAfter { pairs.append(("retry-after", retryAfter)) }
        let hasBody = !slot.answerBody.isEmpty || slot.resetAfterAnswer != nil
        // One buffer for all names and values, which nghttp2 copies.
        var bytes: [UInt8] = []
        for pair in pairs { bytes += Array(pair.name.utf8) + Array(pair.value.utf8) }
        unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            var position = 0
            for (index, pair) in pairs.enumerated() {
                let nameLength = pair.name.utf8.count
                let valueLength = pair.value.utf8.count
                unsafe headers[index] = unsafe nghttp2_nv(
                    name: base + position,
                    value: base + position + nameLength,
                    namelen: nameLength,
                    valuelen: valueLength,
                    flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)
                )
                position += nameLength + valueLength
            }
            unsafe http.respond(
                stream: slot.streamID,
                headers: UnsafeBufferPointer(rebasing: headers[..<pairs.count]),
                hasBody: hasBody
            )
        }
    }

    // MARK: Identifiers

    /// Puts the apns-id of the answer into the slot: the one that was sent, or a new one in upper case.
    private func fillID(_ slot: StreamSlot) {
        guard let sent = slot.bytes(.messageID), sent.count == StreamSlot.idLength else {
            return unsafe writeUUID(into: slot.idText, isUpper: true)
        }
        var index = 0
        for byte in sent {
            unsafe slot.idText[index] = byte
            index += 1
        }
    }

    private func writeUUID(into text: UnsafeMutableBufferPointer<UInt8>, isUpper: Bool) {
        var bits = nextRandom()
        let letter = UInt8(ascii: isUpper ? "A" : "a") - 10
        for index in 0..<text.count {
            switch index {
            case 8, 13, 18, 23:
                unsafe text[index] = UInt8(ascii: "-")
                if index == 18 { bits = nextRandom() }
                continue
            case 14: unsafe text[index] = UInt8(ascii: "4")
            case 19: unsafe text[index] = UInt8(ascii: isUpper ? "A" : "a")
            default:
                let digit = UInt8(truncatingIfNeeded: bits & 15)
                unsafe text[index] = digit < 10 ? 0x30 + digit : letter + digit
            }
            bits >>= 4
        }
    }

    /// SplitMix64: quick, and good enough for identifiers of a test double.
    private func nextRandom() -> UInt64 {
        random &+= 0x9E37_79B9_7F4A_7C15
        var z = random
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    // MARK: Fields

    private func field(_ name: StaticString, _ value: StaticString) -> nghttp2_nv {
        unsafe nghttp2_nv(
            name: UnsafeMutablePointer(mutating: name.utf8Start),
            value: UnsafeMutablePointer(mutating: value.utf8Start),
            namelen: name.utf8CodeUnitCount,
            valuelen: value.utf8CodeUnitCount,
            flags: UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue)
        )
    }

    /// A value in memory that outlives the stream. Values that are different each time stay out of the header table.
    private func field(_ name: StaticString, _ value: UnsafeMutableBufferPointer<UInt8>, indexed: Bool) -> nghttp2_nv {
        let index = indexed ? NGHTTP2_NV_FLAG_NONE.rawValue : NGHTTP2_NV_FLAG_NO_INDEX.rawValue
        return unsafe nghttp2_nv(
            name: UnsafeMutablePointer(mutating: name.utf8Start),
            value: value.baseAddress,
            namelen: name.utf8CodeUnitCount,
            valuelen: value.count,
            flags: UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue | index)
        )
    }
}
