/// Why a request has no answer.
package enum UnansweredCause: Sendable, Equatable {
    /// The request's time limit passed.
    case timedOut
    /// The connection ended first.
    case connectionLost
    /// The peer reset the stream with this HTTP/2 error code.
    case streamReset(code: UInt32)
    /// Connections refused it a hundred times or ended over it, the last one over it alone, or its header is larger than
    /// the peer takes: surely not processed.
    case refused
    /// The peer let no stream be opened for as long as the pool is patient.
    case noStreamsAllowed
    /// The host's name has no address.
    case nameNotResolved
    /// No connection came about: refused, unreachable, or silent.
    case connectFailed
    /// TCP worked, TLS did not: certificate, protocol, or silence.
    case tlsFailed
    /// The pool or the client was closed.
    case poolClosed

    /// What happened and what to look at, without a final period.
    package var text: String {
        switch self {
        case .timedOut: "no answer came in time"
        case .connectionLost: "the connection ended before an answer came"
        case .streamReset(let code): "the stream was reset with HTTP/2 error \(code)"
        case .refused: "the request was refused again and again"
        case .noStreamsAllowed: "the peer lets no request be sent"
        case .nameNotResolved: "the host's name has no address; check the endpoint and the name server"
        case .connectFailed: "no connection came about; check the endpoint, the network and its firewalls"
        case .tlsFailed: "no TLS connection came about"
        case .poolClosed: "the client was stopped"
        }
    }
}

/// What became of one request. Packed: its bytes stand in the chunk that it came with.
package struct Completion: Sendable {
    /// What became of it.
    package enum Kind: Sendable, Equatable {
        /// The peer answered; `status` holds the code.
        case answered
        /// Its deadline passed before it was framed whole: the peer has nothing that it could act on.
        case expired
        /// It was cancelled before it was framed: nothing was sent.
        case cancelled
        /// No whole answer came.
        case unanswered(UnansweredCause)
    }

    /// The caller's number of the batch.
    package let tag: Int
    /// The request's index in its batch.
    package let index: Int
    /// What became of it.
    package let kind: Kind
    /// The HTTP status, 0 when there is none.
    package let status: Int
    /// True when an unanswered request was handed to the network whole, so that the peer may have acted on it.
    package let mayHaveBeenProcessed: Bool
    let start: UInt32
    let fields: ResponseFields
    let bodyCount: UInt32

    /// Where the body stands in the chunk's bytes; at most the pool's `maximumBodyBytes` of it are kept.
    package var bodyRange: Range<Int> {
        let start = Int(start) + fields.count
        return start..<start + Int(bodyCount)
    }

    /// Where a response field stands in the chunk's bytes; nil when the response did not have it.
    ///
    /// - Parameter position: the field's place in the pool's `responseFields`.
    package func fieldRange(_ position: Int) -> Range<Int>? {
        fields.range(position).map { $0.lowerBound + Int(start)..<$0.upperBound + Int(start) }
    }
}

// Where up to four fields stand at the head of a response's bytes; -1 for a field that did not come.
struct ResponseFields: Sendable {
    private var starts: InlineArray<4, Int16> = .init(repeating: -1)
    private var counts: InlineArray<4, UInt16> = .init(repeating: 0)
    private(set) var count = 0

    static let limit = 4
    // Values beyond this are cut: no field of interest comes near it.
    static let valueLimit = 512

    mutating func add(_ position: Int, count added: Int) {
        starts[position] = Int16(count)
        counts[position] = UInt16(added)
        count += added
    }

    func has(_ position: Int) -> Bool { starts[position] >= 0 }

    func range(_ position: Int) -> Range<Int>? {
        let start = Int(starts[position])
        return start < 0 ? nil : start..<start + Int(counts[position])
    }
}

/// The completions of one turn of the event loop.
package struct CompletionChunk: Sendable {
    /// The completions, in the order in which they came about.
    package let completions: [Completion]
    /// The bytes that the completions' ranges refer to.
    package let bytes: [UInt8]

    /// A copy of a completion's body.
    package func body(of completion: Completion) -> [UInt8] {
        Array(bytes[completion.bodyRange])
    }

    /// A response field as text; nil when the response did not have it.
    package func field(_ position: Int, of completion: Completion) -> String? {
        completion.fieldRange(position).map { String(decoding: bytes[$0], as: UTF8.self) }
    }
}

/// The answer to a single request.
package struct Response: Sendable {
    /// The HTTP status.
    package let status: Int
    /// The body, at most the pool's `maximumBodyBytes` of it.
    package let body: [UInt8]
    /// The fields that the pool's configuration asks for, in its order.
    package let fields: [String?]
}
