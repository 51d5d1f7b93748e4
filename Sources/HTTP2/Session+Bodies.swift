// Bodies: from a batch's parts through the windows of stream and connection into DATA frames.
extension Session {
    func bodyCount(_ slot: Int, _ entry: RequestBatch.Entry, in batch: RequestBatch) -> Int {
        var count = 0
        let first = Int(entry.body.firstPart)
        for part in first..<first + Int(entry.body.partCount) {
            switch batch.parts[part] {
            case .bytes(let range): count += Int(range.count)
            case .secondsLeft: count += Digits(streams[slot].secondsLeft).count
            }
        }
        return count
    }

    // The last frame of the request is about to be framed.
    func markFramed(_ slot: Int) {
        streams[slot].isFramed = true
        streams[slot].wireMark = output.framedTotal
    }

    // Frames as much of a body as the windows and one write allow; the rest waits in `blocked`.
    func sendBody(_ slot: Int, of batch: RequestBatch) {
        while true {
            let allowed = min(sendWindow, streams[slot].sendWindow)
            let left = streams[slot].bodyLeft
            let count = min(left, Int(allowed), FrameLimits.payloadBytes)
            if count <= 0 { return block(slot) }
            let isLast = count == left
            if isLast { markFramed(slot) }
            streams[slot].bodyLeft = left - count
            streams[slot].sendWindow -= Int64(count)
            sendWindow -= Int64(count)
            flood.frameSent()
            let start = unsafe output.extend(by: FrameLimits.headerBytes + count)
            let flags = isLast ? FrameFlags.endStream : 0
            unsafe start.putFrameHeader(FrameType.data, flags, streams[slot].streamID, count)
            unsafe copyBody(slot, batch, count, to: start + FrameLimits.headerBytes)
            if isLast { return }
            if output.count >= OutputBuffer.target {
                mayUnblock = true
                return block(slot)
            }
        }
    }

    private func block(_ slot: Int) {
        // Streams that were reset while they waited must not pile up.
        if blocked.count >= 2 * streams.capacity {
            for stream in blocked.removeAll() where streams.slot(of: stream) != nil { blocked.append(stream) }
        }
        blocked.append(streams[slot].streamID)
    }

    // Goes on with the bodies that waited, in their order; those that still cannot go wait again.
    func sendBlocked<Owner: SessionOwner>(for owner: Owner) {
        guard mayUnblock else { return }
        mayUnblock = false
        var rounds = blocked.count
        while rounds > 0, sendWindow > 0 {
            if output.count >= OutputBuffer.target {
                mayUnblock = true
                return
            }
            rounds -= 1
            guard let stream = blocked.popFirst() else { break }
            // It may have been reset meanwhile.
            guard let slot = streams.slot(of: stream), let reference = streams[slot].reference else { continue }
            if owner.isTooLate(slot) {
                expire(slot, owner)
            } else {
                sendBody(slot, of: reference.submission.batch)
            }
        }
    }

    // The rest of a body is not sent any more. A peer acts on no request that it did not get whole.
    func expire<Owner: SessionOwner>(_ slot: Int, _ owner: Owner) {
        appendReset(streams[slot].streamID, .cancel)
        owner.streamExpired(slot)
    }

    // Copies the next bytes of a body's parts.
    private func copyBody(_ slot: Int, _ batch: RequestBatch, _ count: Int, to start: UnsafeMutablePointer<UInt8>) {
        var written = 0
        while written < count {
            let offset = Int(streams[slot].partOffset)
            let whole: Int
            let taken: Int
            switch batch.parts[Int(streams[slot].part)] {
            case .bytes(let range):
                whole = Int(range.count)
                taken = min(whole - offset, count - written)
                unsafe (start + written).update(from: batch.bytes.pointer(to: range) + offset, count: taken)
            case .secondsLeft:
                let digits = Digits(streams[slot].secondsLeft)
                whole = digits.count
                taken = min(whole - offset, count - written)
                for index in 0..<taken { unsafe start[written + index] = digits[offset + index] }
            }
            written += taken
            if offset + taken == whole {
                streams[slot].part += 1
                streams[slot].partOffset = 0
            } else {
                streams[slot].partOffset += UInt32(taken)
            }
        }
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
