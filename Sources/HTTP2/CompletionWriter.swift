// Gathers the completions of a turn and hands them over as one chunk.
struct CompletionWriter {
    private var completions: [Completion] = []
    private var bytes: [UInt8] = []
    private let sink: @Sendable (CompletionChunk) -> Void
    // Room for the next chunk: as much as the last one took, so that a busy loop does not grow its arrays each turn.
    private var lastCount = 0
    private var lastByteCount = 0

    init(sink: @escaping @Sendable (CompletionChunk) -> Void) {
        self.sink = sink
    }

    mutating func add(_ submission: Submission, index: UInt32, kind: Completion.Kind, mayHaveBeenProcessed: Bool) {
        add(submission, index, kind, 0, mayHaveBeenProcessed, ResponseFields(), bodyCount: 0, response: [])
    }

    mutating func addAnswer(_ submission: Submission, index: UInt32, from slot: borrowing StreamSlot) {
        let bodyCount = slot.response.count - slot.fields.count
        add(
            submission,
            index,
            .answered,
            Int(slot.status),
            true,
            slot.fields,
            bodyCount: bodyCount,
            response: slot.response
        )
    }

    private mutating func add(
        _ submission: Submission,
        _ index: UInt32,
        _ kind: Completion.Kind,
        _ status: Int,
        _ mayHaveBeenProcessed: Bool,
        _ fields: ResponseFields,
        bodyCount: Int,
        response: [UInt8]
    ) {
        let completion = Completion(
            tag: submission.tag,
            index: Int(index),
            kind: kind,
            status: status,
            mayHaveBeenProcessed: mayHaveBeenProcessed,
            start: submission.single == nil ? UInt32(bytes.count) : 0,
            fields: fields,
            bodyCount: UInt32(bodyCount)
        )
        if let single = submission.single {
            single.resume(returning: completion.singleResult(response))
            return
        }
        if completions.isEmpty {
            completions.reserveCapacity(max(16, lastCount))
            bytes.reserveCapacity(max(256, lastByteCount))
        }
        completions.append(completion)
        if !response.isEmpty { bytes.append(contentsOf: response) }
    }

    mutating func flush() {
        if completions.isEmpty { return }
        let chunk = CompletionChunk(completions: completions, bytes: bytes)
        lastCount = completions.count
        lastByteCount = bytes.count
        completions = []
        bytes = []
        sink(chunk)
    }
}

extension Completion {
    // The outcome of a single request; `bytes` are those of this completion alone.
    func singleResult(_ bytes: [UInt8]) -> Result<Response, HTTP2Error> {
        switch kind {
        case .answered:
            let fields = (0..<ResponseFields.limit).map { position in
                fieldRange(position).map { String(decoding: bytes[$0], as: UTF8.self) }
            }
            return .success(Response(status: status, body: Array(bytes[bodyRange]), fields: fields))
        case .expired, .cancelled:
            return .failure(HTTP2Error(.notSent, "The request was not sent: it was \(kind)"))
        case .unanswered(let cause):
            return .failure(
                HTTP2Error(
                    .unanswered(cause, mayHaveBeenProcessed: mayHaveBeenProcessed),
                    "The request has no answer: \(cause)"
                )
            )
        }
    }
}
