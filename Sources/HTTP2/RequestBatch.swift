package import PushCore

/// A piece of the bytes of a `RequestBatch`.
package struct ByteRange: Sendable, Equatable {
    let start: UInt32
    let count: UInt32

    /// No bytes: a field that this request does not have.
    package static let none = ByteRange(start: 0, count: 0)

    var isEmpty: Bool { count == 0 }
}

/// One piece of a request's body.
package enum BodyPart: Sendable, Equatable {
    /// Bytes of the batch, shared by many requests or belonging to one.
    case bytes(ByteRange)
    /// The whole seconds until the batch's deadline, rounded up, in decimal digits: written when the request is framed.
    case secondsLeft
}

/// A body made of parts, stored once for all requests that have it.
package struct RequestBody: Sendable, Equatable {
    let firstPart: UInt32
    let partCount: UInt32

    /// No body at all.
    package static let none = RequestBody(firstPart: 0, partCount: 0)
}

/// Requests to one endpoint that go out together: one arena of bytes and flat entries, no object per request.
///
/// Made by `RequestBatchBuilder`, never changed afterwards. Where it goes (host, authority, `authorization`) belongs to
/// the pool that it is submitted to, so the same batch can be sent through another pool.
@safe
package final class RequestBatch: Sendable {
    // One request: where its path, its own field values and its body stand.
    struct Entry {
        let path: ByteRange
        let firstValue: ByteRange
        let secondValue: ByteRange
        let body: RequestBody
    }

    struct Field {
        let name: ByteRange
        let value: ByteRange
        let isIndexed: Bool
    }

    let bytes: PinnedBytes
    let method: ByteRange
    let sharedFields: [Field]
    // Names of the fields whose values differ per request, at most two; their `value` is empty.
    let ownFields: [Field]
    let parts: [BodyPart]
    let entries: [Entry]
    /// Nothing is sent after this moment; nil for no deadline.
    package let deadline: WallClock.Instant?
    /// How long an answer may take from the moment that the request is framed.
    package let timeLimit: Duration

    /// How many requests the batch holds.
    package var count: Int { entries.count }

    init(
        bytes: PinnedBytes,
        method: ByteRange,
        sharedFields: [Field],
        ownFields: [Field],
        parts: [BodyPart],
        entries: [Entry],
        deadline: WallClock.Instant?,
        timeLimit: Duration
    ) {
        self.bytes = bytes
        self.method = method
        self.sharedFields = sharedFields
        self.ownFields = ownFields
        self.parts = parts
        self.entries = entries
        self.deadline = deadline
        self.timeLimit = timeLimit
    }
}

/// Which requests of a batch to send.
package enum RequestSelection: Sendable {
    /// All of them, in order.
    case all
    /// These, in this order, each at most once.
    case indices([UInt32])
    /// Those whose bit is not set; bit i is bit i % 8 of byte i / 8, least significant first. Missing bytes are zero.
    case notIn(bitmap: [UInt8])
}
