/// The least that a provider can be: every request that ends is answered 200, with a new apns-id or message name.
///
/// For load runs, where the server must not be what is measured. It walks frame headers and skips everything else:
/// request headers are never decoded, nothing is kept per stream but its number while the round trip lasts, and the
/// stream limit is not enforced. Costs about a fifth of a session of nghttp2.
struct QuickSession {
    private enum FrameType {
        static let data: UInt8 = 0
        static let headers: UInt8 = 1
        static let settings: UInt8 = 4
        static let ping: UInt8 = 6
        static let goAway: UInt8 = 7
        static let windowUpdate: UInt8 = 8
        static let continuation: UInt8 = 9
    }

    private enum Flag {
        static let endStream: UInt8 = 1
        static let ack: UInt8 = 1
        static let endHeaders: UInt8 = 4
    }

    private static let headLength = 9
    private static let prefaceLength = 24
    private static let maximumFrame = 16_384
    /// What clients may send before they hear of the window again; 16 MiB.
    private static let window: Int = 16_777_216

    /// Requests that ended since the last `takeCounts`.
    private var ended = 0
    /// Body bytes since the last `takeCounts`.
    private var bodyBytes = 0
    private(set) var openStreams = 0
    private(set) var peakOpenStreams = 0
    private(set) var pings = 0
    private var consumed = 0

    /// The frame being read.
    private var head: [UInt8] = []
    private var type: UInt8 = 0
    private var flags: UInt8 = 0
    private var stream: UInt32 = 0
    private var length = 0
    private var left = QuickSession.prefaceLength
    private var isPreface = true
    /// The payload of a PING, SETTINGS or WINDOW_UPDATE.
    private var payload: [UInt8] = []
    /// HEADERS with END_STREAM whose CONTINUATION is still to come.
    private var endsWithHeaders = false

    /// An answer, in which the stream ids and the digits of the number change.
    private var answer: QuickAnswer
    /// What the client takes of the answers' DATA, on the connection and on each stream.
    private var sendWindow = 65_535
    private var streamWindow = 65_535
    /// Answers that wait for the client's window.
    private var blocked = StreamQueue()
    /// Answers wait for `answer(stream:output:)` instead of going out at once.
    private let isDelayed: Bool
    /// Streams that ended since the last `takeEnded`, when answers are delayed.
    private var endedStreams: [UInt32] = []

    init(_ answer: QuickAnswer, isDelayed: Bool = false) {
        self.answer = answer
        self.isDelayed = isDelayed
    }

    /// What the server says first: its SETTINGS and a large window.
    static func greeting(maxConcurrentStreams: UInt32) -> [UInt8] {
        var settings: [UInt8] = []
        for (id, value) in [(UInt16(3), maxConcurrentStreams), (4, 65_535), (5, UInt32(maximumFrame)), (6, 8000)] {
            settings += bigEndian(UInt32(id), bytes: 2) + bigEndian(value, bytes: 4)
        }
        return head(length: settings.count, type: FrameType.settings, flags: 0, stream: 0) + settings
            + windowUpdate(UInt32(window - 65_535))
    }

    /// Takes the counts of requests and body bytes since the last call.
    mutating func takeCounts() -> (requests: Int, bodyBytes: Int) {
        defer {
            ended = 0
            bodyBytes = 0
        }
        return (ended, bodyBytes)
    }

    /// Hands over the streams whose answers are to be delayed, in order.
    mutating func takeEnded(_ take: (UInt32) -> Void) {
        for stream in endedStreams { take(stream) }
        endedStreams.removeAll(keepingCapacity: true)
    }

    /// Reads a piece of input and appends the answers to `output`; false when the client is out of step.
    mutating func receive(_ input: UnsafeRawBufferPointer, output: inout [UInt8]) -> Bool {
        var position = 0
        while position < input.count {
            if left > 0 {
                let count = min(left, input.count - position)
                if keepsPayload { unsafe payload.append(contentsOf: input[position..<position + count]) }
                position += count
                left -= count
                guard left == 0 else { break }
                guard finishFrame(&output) else { return false }
                continue
            }
            if head.isEmpty, input.count - position >= Self.headLength {
                unsafe readHead(UnsafeRawBufferPointer(rebasing: input[position..<position + Self.headLength]))
                position += Self.headLength
            } else {
                unsafe head.append(input[position])
                position += 1
                guard head.count == Self.headLength else { continue }
                let whole = head
                head.removeAll(keepingCapacity: true)
                unsafe whole.withUnsafeBytes { unsafe readHead($0) }
            }
            guard length <= Self.maximumFrame else { return false }
            if left == 0, !finishFrame(&output) { return false }
        }
        return true
    }

    private mutating func readHead(_ bytes: UnsafeRawBufferPointer) {
        length = unsafe Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
        type = unsafe bytes[3]
        flags = unsafe bytes[4]
        stream = unsafe UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: 5, as: UInt32.self))
        left = length
    }

    private var keepsPayload: Bool {
        !isPreface && (type == FrameType.ping || type == FrameType.settings || type == FrameType.windowUpdate)
    }

    private mutating func finishFrame(_ output: inout [UInt8]) -> Bool {
        guard !isPreface else {
            isPreface = false
            return true
        }
        switch type {
        case FrameType.headers:
            openStreams += 1
            if openStreams > peakOpenStreams { peakOpenStreams = openStreams }
            guard flags & Flag.endStream != 0 else { return true }
            if flags & Flag.endHeaders != 0 { endStream(&output) } else { endsWithHeaders = true }
        case FrameType.continuation where endsWithHeaders && flags & Flag.endHeaders != 0:
            endsWithHeaders = false
            endStream(&output)
        case FrameType.data:
            bodyBytes += length
            consumed += length
            if consumed >= Self.window / 2 {
                output += Self.windowUpdate(UInt32(consumed))
                consumed = 0
            }
            if flags & Flag.endStream != 0 { endStream(&output) }
        case FrameType.settings, FrameType.ping, FrameType.windowUpdate:
            defer { payload.removeAll(keepingCapacity: true) }
            return finishControlFrame(&output)
        default: break
        }
        return true
    }

    private mutating func finishControlFrame(_ output: inout [UInt8]) -> Bool {
        switch type {
        case FrameType.settings where flags & Flag.ack == 0:
            output += Self.head(length: 0, type: FrameType.settings, flags: Flag.ack, stream: 0)
            return takeSettings()
        case FrameType.ping where flags & Flag.ack == 0:
            pings += 1
            output += Self.head(length: 8, type: FrameType.ping, flags: Flag.ack, stream: 0) + payload
        case FrameType.windowUpdate where stream == 0 && payload.count == 4:
            sendWindow += Int(payload.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } & 0x7FFF_FFFF)
            while sendWindow >= answer.bodyCount, let waiting = blocked.takeFirst() { write(waiting, &output) }
        default: break
        }
        return true
    }

    /// Only INITIAL_WINDOW_SIZE matters: a client that takes no whole answer on a stream is not for quick runs.
    private mutating func takeSettings() -> Bool {
        for start in stride(from: 0, to: payload.count - 5, by: 6) where payload[start] == 0 && payload[start + 1] == 4
        {
            streamWindow = payload[start + 2..<start + 6].reduce(0) { $0 << 8 | Int($1) }
        }
        return streamWindow >= answer.bodyCount
    }

    private mutating func endStream(_ output: inout [UInt8]) {
        ended += 1
        if isDelayed { endedStreams.append(stream) } else { answer(stream: stream, output: &output) }
    }

    /// Appends the answer of a stream that ended, as far as the client's window goes.
    mutating func answer(stream: UInt32, output: inout [UInt8]) {
        openStreams -= 1
        guard blocked.isEmpty, sendWindow >= answer.bodyCount else { return blocked.add(stream) }
        write(stream, &output)
    }

    private mutating func write(_ stream: UInt32, _ output: inout [UInt8]) {
        sendWindow -= answer.bodyCount
        answer.append(to: &output, stream: stream)
    }

    // MARK: Frames

    static func head(length: Int, type: UInt8, flags: UInt8, stream: UInt32) -> [UInt8] {
        bigEndian(UInt32(length), bytes: 3) + [type, flags] + bigEndian(stream, bytes: 4)
    }

    private static func windowUpdate(_ increment: UInt32) -> [UInt8] {
        head(length: 4, type: FrameType.windowUpdate, flags: 0, stream: 0) + bigEndian(increment, bytes: 4)
    }

    private static func bigEndian(_ value: UInt32, bytes: Int) -> [UInt8] {
        (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> UInt32(8 * $0)) }
    }
}

/// The frames of a quick answer: the same bytes each time but for the stream ids and a number of eight digits.
struct QuickAnswer {
    private var bytes: [UInt8]
    /// Where stream ids stand.
    private let streamOffsets: [Int]
    private let numberOffset: Int
    private var number: UInt32 = 0
    /// Bytes of DATA, which the client's windows are for.
    let bodyCount: Int

    /// HEADERS alone: `:status` 200 from the static table, apns-id as a literal that is not indexed.
    static let apns: QuickAnswer = {
        let name = [0x88, 0x00, 7] + Array("apns-id".utf8) + [36]
        let block = name + Array("00000000-0000-4000-A000-000000000000".utf8)
        let head = QuickSession.head(length: block.count, type: 1, flags: 5, stream: 0)
        return QuickAnswer(bytes: head + block, streamOffsets: [5], numberOffset: head.count + name.count, bodyCount: 0)
    }()

    /// HEADERS with a content type and DATA with the name of the message.
    static func fcm(projectID: String) -> QuickAnswer {
        let type = Array("application/json; charset=UTF-8".utf8)
        // content-type stands at 31 of the static table.
        let block: [UInt8] = [0x88, 0x0F, 16, UInt8(type.count)] + type
        let start = Array("{\"name\":\"projects/\(projectID)/messages/0:1700000000000000%".utf8)
        let body = start + Array("00000000quick\"}".utf8)
        let headers = QuickSession.head(length: block.count, type: 1, flags: 4, stream: 0) + block
        let data = QuickSession.head(length: body.count, type: 0, flags: 1, stream: 0)
        return QuickAnswer(
            bytes: headers + data + body,
            streamOffsets: [5, headers.count + 5],
            numberOffset: headers.count + data.count + start.count,
            bodyCount: body.count
        )
    }

    mutating func append(to output: inout [UInt8], stream: UInt32) {
        for offset in streamOffsets {
            bytes[offset] = UInt8(truncatingIfNeeded: stream >> 24)
            bytes[offset + 1] = UInt8(truncatingIfNeeded: stream >> 16)
            bytes[offset + 2] = UInt8(truncatingIfNeeded: stream >> 8)
            bytes[offset + 3] = UInt8(truncatingIfNeeded: stream)
        }
        // Eight digits of the count are enough for ids that differ within a connection.
        number &+= 1
        var rest = number
        for index in stride(from: numberOffset + 7, through: numberOffset, by: -1) {
            let digit = UInt8(truncatingIfNeeded: rest & 15)
            bytes[index] = digit < 10 ? 0x30 + digit : 0x37 + digit
            rest >>= 4
        }
        output.append(contentsOf: bytes)
    }
}
