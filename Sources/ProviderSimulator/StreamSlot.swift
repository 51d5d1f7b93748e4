/// The request headers that the simulator looks at.
enum RequestField: Int, CaseIterable {
    case method
    case path
    case authorization
    case topic
    case pushType
    case priority
    case expiration
    case collapseID
    case messageID
    case contentType

    static let count = RequestField.allCases.count

    /// The field with that name, by length first: cheap enough for each header of each request.
    static func named(_ name: UnsafeBufferPointer<UInt8>) -> RequestField? {
        switch name.count {
        case 5: unsafe isEqual(name, ":path") ? .path : nil
        case 7: unsafe isEqual(name, "apns-id") ? .messageID : isEqual(name, ":method") ? .method : nil
        case 10: unsafe isEqual(name, "apns-topic") ? .topic : nil
        case 12: unsafe isEqual(name, "content-type") ? .contentType : nil
        case 13:
            unsafe isEqual(name, "authorization") ? .authorization : isEqual(name, "apns-priority") ? .priority : nil
        case 14: unsafe isEqual(name, "apns-push-type") ? .pushType : nil
        case 15: unsafe isEqual(name, "apns-expiration") ? .expiration : nil
        case 16: unsafe isEqual(name, "apns-collapse-id") ? .collapseID : nil
        default: nil
        }
    }

    private static func isEqual(_ name: UnsafeBufferPointer<UInt8>, _ word: StaticString) -> Bool {
        word.withUTF8Buffer { buffer in
            for index in 0..<buffer.count where unsafe buffer[index] != name[index] { return false }
            return true
        }
    }
}

/// One request on its way in and its answer on the way out. Slots are pooled: a request allocates nothing once
/// the buffers have grown.
@safe
final class StreamSlot {
    /// Bodies beyond that many bytes are counted but not kept.
    static let maximumKeptBody = 65_536

    /// Characters of a UUID.
    static let idLength = 36

    var streamID: Int32 = 0
    /// Body bytes received.
    var payloadBytes = 0
    var body: [UInt8] = []
    /// Every field in order, where the ledger is to have them.
    private(set) var headers: [HeaderField] = []
    /// A known field came twice.
    var hasDuplicates = false
    /// The request is complete; what comes later on the stream is not looked at.
    var isComplete = false
    var decision = Decision.accept
    /// What the ledger holds of the request as long as a GOAWAY may still exclude it; nil once it is answered.
    var entry: RequestRecord?
    /// The answer's body and how much of it went out.
    var answerBody: [UInt8] = []
    var answerSent = 0
    /// After the answer's body the stream is reset with this code instead of being ended.
    var resetAfterAnswer: UInt32?

    /// The answer's apns-id and apns-unique-id: memory that stays put, since nghttp2 reads it when the frame is made.
    let idText = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: idLength)
    let uniqueIDText = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: idLength)

    private var arena: [UInt8] = []
    private var ranges = [Range<Int>](repeating: -1..<(-1), count: RequestField.count)

    init() {
        unsafe idText.initialize(repeating: 0)
        unsafe uniqueIDText.initialize(repeating: 0)
    }

    deinit {
        unsafe idText.deallocate()
        unsafe uniqueIDText.deallocate()
    }

    func prepare(streamID: Int32) {
        self.streamID = streamID
        payloadBytes = 0
        body.removeAll(keepingCapacity: true)
        if !headers.isEmpty { headers.removeAll() }
        hasDuplicates = false
        isComplete = false
        decision = .accept
        entry = nil
        answerBody = []
        answerSent = 0
        resetAfterAnswer = nil
        arena.removeAll(keepingCapacity: true)
        for index in ranges.indices { ranges[index] = -1..<(-1) }
    }

    func store(_ field: RequestField, _ value: UnsafeBufferPointer<UInt8>) {
        if ranges[field.rawValue].lowerBound >= 0 { hasDuplicates = true }
        let start = arena.count
        unsafe arena.append(contentsOf: value)
        ranges[field.rawValue] = start..<arena.count
    }

    /// Keeps a field for the ledger. A bearer token is worth money: what stands there is a hash of it.
    func keep(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        let text = unsafe String(decoding: name, as: UTF8.self)
        guard text == "authorization" else {
            headers.append(HeaderField(text, unsafe String(decoding: value, as: UTF8.self)))
            return
        }
        let scheme = unsafe value.prefix { $0 != 0x20 }
        let isSecretOnly = unsafe scheme.count == value.count
        let shown = unsafe isSecretOnly ? "" : String(decoding: scheme, as: UTF8.self) + " "
        headers.append(HeaderField(text, unsafe shown + hexText(hash64(value))))
    }

    func appendBody(_ bytes: UnsafeBufferPointer<UInt8>) {
        payloadBytes += bytes.count
        if payloadBytes <= Self.maximumKeptBody { unsafe body.append(contentsOf: bytes) }
    }

    /// The bytes of a field; nil when it was not sent.
    func bytes(_ field: RequestField) -> ArraySlice<UInt8>? {
        let range = ranges[field.rawValue]
        return range.lowerBound < 0 ? nil : arena[range]
    }

    /// The text of a field; nil when it was not sent. Allocates above 15 bytes.
    func text(_ field: RequestField) -> String? {
        bytes(field).map { String(decoding: $0, as: UTF8.self) }
    }

    func length(_ field: RequestField) -> Int { max(0, ranges[field.rawValue].count) }

    func has(_ field: RequestField) -> Bool { ranges[field.rawValue].lowerBound >= 0 }

    func equals(_ field: RequestField, _ word: StaticString) -> Bool {
        guard let bytes = bytes(field), bytes.count == word.utf8CodeUnitCount else { return false }
        return word.withUTF8Buffer { unsafe bytes.elementsEqual($0) }
    }
}

/// What the simulator has decided to do with a request.
struct Decision {
    /// HTTP status; 0 when no answer is sent.
    var status = 200
    /// Reason or error code for the ledger; nil when accepted.
    var reason: String?
    var contentType: String?
    var body: [UInt8] = []
    var retryAfter: String?
    /// What happens to the stream or the connection besides (or instead of) the answer.
    var behaviour = Behaviour.accept
    var delayMilliseconds = 0

    static let accept = Decision()

    /// No answer: something happens to the stream or the connection instead.
    static func unanswered(_ behaviour: Behaviour, reason: String) -> Decision {
        Decision(status: 0, reason: reason, behaviour: behaviour)
    }

    static func json(status: Int, reason: String, _ text: String) -> Decision {
        Decision(status: status, reason: reason, contentType: "application/json", body: Array(text.utf8))
    }
}
