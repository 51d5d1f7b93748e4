/// Frames as bytes, written and read without the code under test.
enum Wire {
    struct Frame: Equatable {
        let type: UInt8
        let flags: UInt8
        let stream: Int
        let payload: [UInt8]
    }

    static func number(_ value: Int, _ bytes: Int = 4) -> [UInt8] {
        (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    static func frame(_ type: UInt8, _ flags: UInt8 = 0, on stream: Int, _ payload: [UInt8] = []) -> [UInt8] {
        head(payload.count, type, flags, on: stream) + payload
    }

    /// The nine bytes before a payload, whether it follows or not.
    static func head(_ count: Int, _ type: UInt8, _ flags: UInt8 = 0, on stream: Int) -> [UInt8] {
        number(count, 3) + [type, flags] + number(stream)
    }

    /// Of the whole frame that the bytes begin with; nil when its head is not all there.
    static func frameSize(_ bytes: ArraySlice<UInt8>) -> Int? {
        bytes.count < 9 ? nil : 9 + bytes.prefix(3).reduce(0) { $0 << 8 | Int($1) }
    }

    /// Takes the whole frames off the front; what is left is the beginning of another.
    static func takeFrames(_ bytes: inout [UInt8]) -> [Frame] {
        var frames: [Frame] = []
        var rest = bytes[...]
        while let size = frameSize(rest), rest.count >= size {
            let head = Array(rest.prefix(9))
            let stream = head[5...].reduce(0) { $0 << 8 | Int($1) }
            let payload = Array(rest.prefix(size).dropFirst(9))
            frames.append(Frame(type: head[3], flags: head[4], stream: stream, payload: payload))
            rest = rest.dropFirst(size)
        }
        bytes = Array(rest)
        return frames
    }

    /// Bytes that must be whole frames.
    static func frames(_ bytes: [UInt8]) -> [Frame] {
        var rest = bytes
        let frames = takeFrames(&rest)
        precondition(rest.isEmpty, "\(rest.count) bytes are no whole frame")
        return frames
    }

    static func settings(_ entries: [(id: Int, value: Int)] = []) -> [UInt8] {
        frame(4, on: 0, entries.flatMap { number($0.id, 2) + number($0.value) })
    }

    static func windowUpdate(_ stream: Int, _ increment: Int) -> [UInt8] { frame(8, on: stream, number(increment)) }
    static func reset(_ stream: Int, _ code: Int = 8) -> [UInt8] { frame(3, on: stream, number(code)) }
    static func ping(_ flags: UInt8 = 0) -> [UInt8] { frame(6, flags, on: 0, [1, 2, 3, 4, 5, 6, 7, 8]) }

    static func goAway(_ last: Int, _ code: Int = 0, _ text: String = "") -> [UInt8] {
        frame(7, on: 0, number(last) + number(code) + Array(text.utf8))
    }

    /// A header block of literals with names of their own. Pattern 0x00 leaves the decoder's table alone, 0x40 enters it.
    static func block(_ fields: [(String, String)], pattern: UInt8 = 0x00) -> [UInt8] {
        var bytes: [UInt8] = []
        for (name, value) in fields {
            if name == ":status", value == "200" {
                bytes.append(0x88)
                continue
            }
            bytes.append(pattern)
            for text in [name, value] {
                bytes.append(UInt8(text.utf8.count))
                bytes += Array(text.utf8)
            }
        }
        return bytes
    }

    /// HEADERS that are whole; 0x5 ends the stream as well.
    static func headers(_ stream: Int, _ fields: [(String, String)], flags: UInt8 = 0x5, pattern: UInt8 = 0) -> [UInt8]
    {
        frame(1, flags, on: stream, block(fields, pattern: pattern))
    }

    /// HEADERS with a block written by hand. 0x88 is `:status` 200.
    static func headers(_ stream: Int, block: [UInt8], flags: UInt8 = 0x5) -> [UInt8] {
        frame(1, flags, on: stream, block)
    }

    static func continuation(_ stream: Int, _ block: [UInt8] = [], flags: UInt8 = 0) -> [UInt8] {
        frame(9, flags, on: stream, block)
    }

    static func data(_ stream: Int, _ bytes: [UInt8], flags: UInt8 = 0x1) -> [UInt8] {
        frame(0, flags, on: stream, bytes)
    }

    static func data(_ stream: Int, _ text: String, flags: UInt8 = 0x1) -> [UInt8] {
        data(stream, Array(text.utf8), flags: flags)
    }
}
