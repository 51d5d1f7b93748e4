internal import CNghttp2
internal import Glibc
internal import PushCore

// What goes out.
extension Connection {
    // Frames requests until 16 KiB are gathered or nothing more may be sent, and writes once.
    // True when another round would find more to do.
    @discardableResult
    func pump() -> Bool {
        guard session != nil, !isWriteBlocked else { return false }
        frame()
        guard !state.isClosed, !output.isEmpty else { return false }
        writeOnce()
        guard !state.isClosed, !isWriteBlocked else { return false }
        return !output.isEmpty || session?.wantsWrite == true || canOpenStream && pool.hasQueued
    }

    private func frame() {
        insideSession { session in
            while output.count < OutputBuffer.target {
                if let failure = session.produce(into: output) { return failure }
                guard output.count < OutputBuffer.target, case .none = deferredAction else { return nil }
                // All requests are framed: nothing reads the fields of an earlier template any more.
                template?.dropFormerFields()
                guard canOpenStream, let reference = pool.next() else { return nil }
                if let failure = open(reference, in: session) { return failure }
            }
            return nil
        }
    }

    private func open(_ reference: RequestReference, in session: Session) -> String? {
        let submission = reference.submission
        let entry = submission.batch.entries[Int(reference.index)]
        let template = preparedTemplate(for: submission.batch)
        template.fill(entry, of: submission.batch)
        let slot = streams.take()
        let hasBody = entry.body.partCount > 0
        switch unsafe session.submit(template.fields, count: template.count, slot: slot, hasBody: hasBody) {
        case .stream(let id):
            let deadline = loop.now.after(nanoseconds: submission.timeLimitNanoseconds)
            streams[slot].open(reference, body: entry.body, deadline: deadline)
            streams[slot].streamID = id
            streams[slot].secondsLeft = pool.secondsLeft(of: submission)
            if !hasBody { markFramed(slot) }
            state.streamOpened()
            requestsFramed += 1
            pool.requestsFramed += 1
            if deadline < nextSweep {
                nextSweep = deadline
                wake(at: deadline)
            }
            if state.openStreams == 1 { noteBusy() }
            return nil
        case .noMoreStreams:
            streams.giveBack(slot)
            pool.putBack(reference)
            retire()
            return nil
        case .failed(let text):
            streams.giveBack(slot)
            pool.putBack(reference)
            return text
        }
    }

    // Fields that are the same for the next request as for the last one are not written again.
    private func preparedTemplate(for batch: RequestBatch) -> FieldTemplate {
        let former = template
        // From the second request on a connection the names of own fields stand in the peer's table.
        let namesAreKnown = requestsFramed > 0
        if let former, former.batch === batch, former.poolFields === pool.fields, former.namesAreKnown == namesAreKnown
        {
            return former
        }
        let made = FieldTemplate(batch: batch, poolFields: pool.fields, namesAreKnown: namesAreKnown, after: former)
        template = made
        return made
    }

    // The last frame of the request is about to be framed.
    private func markFramed(_ slot: Int) {
        streams[slot].isFramed = true
        streams[slot].wireMark = output.framedTotal
    }

    // Copies the next piece of a body to where nghttp2 frames it; true when it was the last one.
    func frameBody(_ slot: Int, into buffer: UnsafeMutablePointer<UInt8>, room: Int) -> (Int, Bool) {
        guard let reference = streams[slot].reference else { return (0, true) }
        let batch = reference.submission.batch
        let body = batch.entries[Int(reference.index)].body
        let end = body.firstPart + body.partCount
        var written = 0
        while streams[slot].part < end {
            if written == room { return (written, false) }
            let offset = Int(streams[slot].partOffset)
            var copied = 0
            var whole = 0
            switch batch.parts[Int(streams[slot].part)] {
            case .bytes(let range):
                whole = Int(range.count)
                copied = min(whole - offset, room - written)
                unsafe (buffer + written).update(from: batch.bytes.pointer(to: range) + offset, count: copied)
            case .secondsLeft:
                let digits = Digits(streams[slot].secondsLeft)
                whole = digits.count
                copied = min(whole - offset, room - written)
                for index in 0..<copied { unsafe buffer[written + index] = digits[offset + index] }
            }
            written += copied
            if offset + copied == whole {
                streams[slot].part += 1
                streams[slot].partOffset = 0
            } else {
                streams[slot].partOffset += UInt32(copied)
            }
        }
        markFramed(slot)
        return (written, true)
    }
}

// The decimal digits of a number without a heap.
struct Digits {
    private var digits: InlineArray<10, UInt8> = .init(repeating: 0x30)
    let count: Int

    init(_ number: UInt32) {
        var rest = number
        var length = 1
        while rest >= 10 {
            rest /= 10
            length += 1
        }
        count = length
        rest = number
        for index in (0..<length).reversed() {
            digits[index] = 0x30 + UInt8(rest % 10)
            rest /= 10
        }
    }

    subscript(index: Int) -> UInt8 { digits[index] }
}
