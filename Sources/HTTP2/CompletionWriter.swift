// Gathers the completions of a turn and hands them over as one chunk.
@safe
final class CompletionWriter {
    private struct Chunk {
        var completions: [Completion] = []
        var bytes: [UInt8] = []
    }

    // Behind a pointer: as properties the arrays would be checked for exclusive access with each append, which costs
    // as much as the append (measured).
    private let chunk: UnsafeMutablePointer<Chunk>
    private let sink: @Sendable (CompletionChunk) -> Void
    // Room for the next chunk: as much as the last one took, so that a busy loop does not grow its arrays each turn.
    private var lastCount = 0
    private var lastByteCount = 0

    init(sink: @escaping @Sendable (CompletionChunk) -> Void) {
        self.sink = sink
        unsafe chunk = .allocate(capacity: 1)
        unsafe chunk.initialize(to: Chunk())
    }

    deinit {
        unsafe chunk.deinitialize(count: 1)
        unsafe chunk.deallocate()
    }

    func add(_ submission: Submission, index: UInt32, kind: Completion.Kind, mayHaveBeenProcessed: Bool) {
        add(submission, index, kind, 0, mayHaveBeenProcessed, ResponseFields(), bodyCount: 0, response: [])
    }

    func addAnswer(_ submission: Submission, index: UInt32, from slot: borrowing StreamSlot) {
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

    private func add(
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
            start: submission.isSingle ? 0 : UInt32(unsafe chunk.pointee.bytes.count),
            fields: fields,
            bodyCount: UInt32(bodyCount)
        )
        if submission.isSingle {
            submission.single?.resume(returning: completion.singleResult(response))
            return
        }
        if unsafe chunk.pointee.completions.isEmpty { makeRoom() }
        unsafe chunk.pointee.completions.append(completion)
        if !response.isEmpty { unsafe chunk.pointee.bytes.append(contentsOf: response) }
    }

    func flush() {
        let full = unsafe chunk.pointee
        if full.completions.isEmpty { return }
        unsafe chunk.pointee = Chunk()
        lastCount = full.completions.count
        lastByteCount = full.bytes.count
        sink(CompletionChunk(completions: full.completions, bytes: full.bytes))
    }

    private func makeRoom() {
        unsafe chunk.pointee.completions.reserveCapacity(max(16, lastCount))
        unsafe chunk.pointee.bytes.reserveCapacity(max(256, lastByteCount))
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
                    cause.text
                )
            )
        }
    }
}
