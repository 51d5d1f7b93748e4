/// The least that an APNs server can be: every request that ends is answered 200 with a new apns-id.
///
/// For load runs, where the server must not be what is measured. It walks frame headers and skips everything else:
/// request headers are never decoded, nothing is kept per stream, and the stream limit is not enforced. Answers carry
/// no DATA, so only the client's flow control needs care. Costs about a fifth of a session of nghttp2.
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

    /// Requests answered since the last `takeCounts`.
    private var answered = 0
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
    private var pingData: [UInt8] = []
    /// HEADERS with END_STREAM whose CONTINUATION is still to come.
    private var endsWithHeaders = false

    /// An answer, in which the stream id and the digits of the apns-id change.
    private var answer: [UInt8]
    private var number: UInt64 = 0
    private static let idOffset = headLength + 11

    init() {
        // :status 200 from the static table; apns-id as a literal without indexing and without Huffman code.
        let block: [UInt8] =
            [0x88, 0x00, 7] + Array("apns-id".utf8) + [36]
            + Array("00000000-0000-4000-A000-000000000000".utf8)
        let flags = Flag.endStream | Flag.endHeaders
        answer = Self.head(length: block.count, type: FrameType.headers, flags: flags, stream: 0) + block
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
            answered = 0
            bodyBytes = 0
        }
        return (answered, bodyBytes)
    }

    /// Reads a piece of input and appends the answers to `output`; false when the client is out of step.
    mutating func receive(_ input: UnsafeRawBufferPointer, output: inout [UInt8]) -> Bool {
        var position = 0
        while position < input.count {
            if left > 0 {
                let count = min(left, input.count - position)
                if type == FrameType.ping, !isPreface {
                    unsafe pingData.append(contentsOf: input[position..<position + count])
                }
                position += count
                left -= count
                guard left == 0 else { break }
                finishFrame(&output)
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
            if left == 0 { finishFrame(&output) }
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

    private mutating func finishFrame(_ output: inout [UInt8]) {
        guard !isPreface else {
            isPreface = false
            return
        }
        switch type {
        case FrameType.headers:
            openStreams += 1
            if openStreams > peakOpenStreams { peakOpenStreams = openStreams }
            guard flags & Flag.endStream != 0 else { return }
            if flags & Flag.endHeaders != 0 { answerStream(&output) } else { endsWithHeaders = true }
        case FrameType.continuation where endsWithHeaders && flags & Flag.endHeaders != 0:
            endsWithHeaders = false
            answerStream(&output)
        case FrameType.data:
            bodyBytes += length
            consumed += length
            if consumed >= Self.window / 2 {
                output += Self.windowUpdate(UInt32(consumed))
                consumed = 0
            }
            if flags & Flag.endStream != 0 { answerStream(&output) }
        case FrameType.settings where flags & Flag.ack == 0:
            output += Self.head(length: 0, type: FrameType.settings, flags: Flag.ack, stream: 0)
        case FrameType.ping:
            if flags & Flag.ack == 0 {
                pings += 1
                output += Self.head(length: 8, type: FrameType.ping, flags: Flag.ack, stream: 0) + pingData
            }
            pingData.removeAll(keepingCapacity: true)
        default: return
        }
    }

    private mutating func answerStream(_ output: inout [UInt8]) {
        answered += 1
        openStreams -= 1
        number &+= 1
        answer[5] = UInt8(truncatingIfNeeded: stream >> 24)
        answer[6] = UInt8(truncatingIfNeeded: stream >> 16)
        answer[7] = UInt8(truncatingIfNeeded: stream >> 8)
        answer[8] = UInt8(truncatingIfNeeded: stream)
        // Eight digits of the count are enough for ids that differ within a run.
        var rest = number
        for index in stride(from: Self.idOffset + 7, through: Self.idOffset, by: -1) {
            let digit = UInt8(truncatingIfNeeded: rest & 15)
            answer[index] = digit < 10 ? 0x30 + digit : 0x37 + digit
            rest >>= 4
        }
        output.append(contentsOf: answer)
    }

    // MARK: Frames

    private static func head(length: Int, type: UInt8, flags: UInt8, stream: UInt32) -> [UInt8] {
        bigEndian(UInt32(length), bytes: 3) + [type, flags] + bigEndian(stream, bytes: 4)
    }

    private static func windowUpdate(_ increment: UInt32) -> [UInt8] {
        head(length: 4, type: FrameType.windowUpdate, flags: 0, stream: 0) + bigEndian(increment, bytes: 4)
    }

    private static func bigEndian(_ value: UInt32, bytes: Int) -> [UInt8] {
        (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> UInt32(8 * $0)) }
    }
}
