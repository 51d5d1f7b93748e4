package import PushCore

/// Builds a `RequestBatch`: store bytes once, then add requests that refer to them.
///
/// ```
/// var builder = RequestBatchBuilder(deadline: expiry, timeLimit: .seconds(30), reserving: 5000)
/// try builder.addField("apns-topic", value: topic)
/// try builder.addOwnField("apns-id")
/// let body = builder.makeBody(.bytes(builder.store(payload)))
/// try builder.add(path: builder.store { $0 += "/3/device/".utf8; … }, ownValues: builder.store { … }, body: body)
/// let batch = builder.finish()
/// ```
package struct RequestBatchBuilder {
    private var bytes: [UInt8] = []
    private var sharedFields: [RequestBatch.Field] = []
    private var ownFields: [RequestBatch.Field] = []
    private var parts: [BodyPart] = []
    private var entries: [RequestBatch.Entry] = []
    private var method: ByteRange
    private let deadline: WallClock.Instant?
    private let timeLimit: Duration

    /// Begins a batch.
    ///
    /// - Parameters:
    ///   - method: in capitals, `POST` for both providers.
    ///   - deadline: nothing is sent after this moment; it is looked at again for each request when it is framed.
    ///   - timeLimit: how long an answer may take once a request is framed; above zero.
    ///   - requests: how many requests to make room for.
    ///   - bytesEach: how many bytes each is likely to store.
    package init(
        method: String = "POST",
        deadline: WallClock.Instant? = nil,
        timeLimit: Duration,
        reserving requests: Int = 0,
        bytesEach: Int = 128
    ) {
        self.deadline = deadline
        self.timeLimit = timeLimit
        self.method = .none
        bytes.reserveCapacity(1024 + requests * bytesEach)
        entries.reserveCapacity(requests)
        self.method = store(method)
    }

    /// How many requests were added.
    package var count: Int { entries.count }

    // MARK: Bytes

    /// Stores bytes and says where they stand.
    package mutating func store(_ content: [UInt8]) -> ByteRange {
        store { $0 += content }
    }

    /// Stores a text as UTF-8.
    package mutating func store(_ text: String) -> ByteRange {
        store { $0 += text.utf8 }
    }

    /// Stores what `write` appends; it must only append. No allocation while there is room.
    package mutating func store(_ write: (inout [UInt8]) -> Void) -> ByteRange {
        let start = bytes.count
        write(&bytes)
        precondition(
            bytes.count >= start && bytes.count <= Int(UInt32.max),
            "a batch holds less than 4 GiB and only grows"
        )
        return ByteRange(start: UInt32(start), count: UInt32(bytes.count - start))
    }

    // MARK: Fields

    /// Adds a header field that all requests have.
    ///
    /// - Parameter isIndexed: false for a value that no other batch will repeat, so that it does not push useful
    ///   entries out of the peer's table.
    /// - Throws: `HTTP2Error` (`invalidField`) when name or value hold bytes that HTTP does not allow.
    package mutating func addField(_ name: String, value: String, isIndexed: Bool = true) throws(HTTP2Error) {
        sharedFields.append(
            RequestBatch.Field(name: try fieldName(name), value: store(value), isIndexed: isIndexed)
        )
        guard FieldText.isValue(value.utf8.span) else {
            throw HTTP2Error(.invalidField, "The value of the header field \(name) holds a character that HTTP forbids")
        }
    }

    /// Names a header field whose value each request brings along; at most two. Its values are not indexed.
    ///
    /// - Throws: `HTTP2Error` (`invalidField`) when the name holds bytes that HTTP does not allow.
    package mutating func addOwnField(_ name: String) throws(HTTP2Error) {
        precondition(ownFields.count < 2, "a request has at most two header fields of its own")
        ownFields.append(RequestBatch.Field(name: try fieldName(name), value: .none, isIndexed: false))
    }

    private mutating func fieldName(_ name: String) throws(HTTP2Error) -> ByteRange {
        guard FieldText.isName(name.utf8) else {
            throw HTTP2Error(
                .invalidField,
                "\(name) is no name of a header field: lower-case letters, digits and hyphens"
            )
        }
        return store(name)
    }

    // MARK: Bodies and requests

    /// Makes a body of up to five parts; use it for as many requests as have it.
    package mutating func makeBody(
        _ first: BodyPart,
        _ second: BodyPart? = nil,
        _ third: BodyPart? = nil,
        _ fourth: BodyPart? = nil,
        _ fifth: BodyPart? = nil
    ) -> RequestBody {
        let start = parts.count
        append(first)
        if let second { append(second) }
        if let third { append(third) }
        if let fourth { append(fourth) }
        if let fifth { append(fifth) }
        return RequestBody(firstPart: UInt32(start), partCount: UInt32(parts.count - start))
    }

    private mutating func append(_ part: BodyPart) {
        if case .bytes(let range) = part, range.isEmpty { return }
        precondition(part != .secondsLeft || deadline != nil, "secondsLeft needs a deadline")
        parts.append(part)
    }

    /// Adds a request; its index is the number of requests added before it.
    ///
    /// - Parameters:
    ///   - path: where its path stands, such as `/3/device/…`.
    ///   - first: the value of the first own field; `.none` leaves the field out.
    ///   - second: the value of the second own field.
    /// - Throws: `HTTP2Error` (`invalidField`) when path or values hold bytes that HTTP does not allow; nothing was
    ///   added then.
    package mutating func add(
        path: ByteRange,
        ownValues first: ByteRange = .none,
        _ second: ByteRange = .none,
        body: RequestBody
    ) throws(HTTP2Error) {
        guard FieldText.isPath(bytes.span.extracting(path.indices)) else {
            throw HTTP2Error(.invalidField, "The path of request \(count) holds a character that HTTP forbids")
        }
        guard FieldText.isValue(bytes.span.extracting(first.indices)),
            FieldText.isValue(bytes.span.extracting(second.indices))
        else {
            throw HTTP2Error(.invalidField, "A header field of request \(count) holds a character that HTTP forbids")
        }
        entries.append(RequestBatch.Entry(path: path, firstValue: first, secondValue: second, body: body))
    }

    /// Ends the batch. The bytes are copied once, to where they stay.
    package consuming func finish() -> RequestBatch {
        RequestBatch(
            bytes: PinnedBytes(bytes),
            method: method,
            sharedFields: sharedFields,
            ownFields: ownFields,
            parts: parts,
            entries: entries,
            deadline: deadline,
            timeLimit: timeLimit
        )
    }
}

extension ByteRange {
    var indices: Range<Int> { Int(start)..<Int(start) + Int(count) }
}

// What HTTP allows in header fields. A peer may close the whole connection over one bad byte, and all requests on it.
enum FieldText {
    static func isName(_ name: some Collection<UInt8>) -> Bool {
        !name.isEmpty
            && name.allSatisfy { byte in
                (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2D || byte == 0x5F
            }
    }

    // Without early exits, so that the compiler looks at many bytes at once.
    static func isValue(_ value: Span<UInt8>) -> Bool {
        unsafe value.withUnsafeBufferPointer { bytes in
            var bad: UInt8 = 0
            for index in 0..<bytes.count {
                let byte = unsafe bytes[index]
                bad |= (byte < 0x20 ? 1 : 0) & (byte == 0x09 ? 0 : 1) | (byte == 0x7F ? 1 : 0)
            }
            return bad == 0
        }
    }

    static func isPath(_ path: Span<UInt8>) -> Bool {
        if path.isEmpty || path[0] != 0x2F { return false }
        return unsafe path.withUnsafeBufferPointer { bytes in
            var bad: UInt8 = 0
            for index in 0..<bytes.count { bad |= unsafe bytes[index] &- 0x21 > 0x5D ? 1 : 0 }
            return bad == 0
        }
    }
}
