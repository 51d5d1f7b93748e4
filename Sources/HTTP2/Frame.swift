// The words of RFC 9113 that a client uses.

enum FrameType {
    static let data: UInt8 = 0
    static let headers: UInt8 = 1
    static let priority: UInt8 = 2
    static let resetStream: UInt8 = 3
    static let settings: UInt8 = 4
    static let pushPromise: UInt8 = 5
    static let ping: UInt8 = 6
    static let goAway: UInt8 = 7
    static let windowUpdate: UInt8 = 8
    static let continuation: UInt8 = 9
}

enum FrameFlags {
    static let ack: UInt8 = 0x1
    static let endStream: UInt8 = 0x1
    static let endHeaders: UInt8 = 0x4
    static let padded: UInt8 = 0x8
    static let priority: UInt8 = 0x20
}

enum SettingID {
    static let headerTableSize: UInt16 = 1
    static let enablePush: UInt16 = 2
    static let maximumConcurrentStreams: UInt16 = 3
    static let initialWindowSize: UInt16 = 4
    static let maximumFrameSize: UInt16 = 5
    static let maximumHeaderListSize: UInt16 = 6
}

struct ErrorCode: Equatable, Sendable {
    let value: UInt32

    static let none = ErrorCode(value: 0)
    static let protocolError = ErrorCode(value: 1)
    static let flowControl = ErrorCode(value: 3)
    static let frameSize = ErrorCode(value: 6)
    static let refusedStream = ErrorCode(value: 7)
    static let cancel = ErrorCode(value: 8)
    static let compression = ErrorCode(value: 9)
    static let enhanceYourCalm = ErrorCode(value: 11)
}

enum FrameLimits {
    static let headerBytes = 9
    // What every peer takes. We never announce more, and never send more though a peer may allow it.
    static let payloadBytes = 16_384
    static let largestWindow: Int64 = 0x7FFF_FFFF
    static let defaultWindow: Int64 = 65_535
}

// What a peer did wrong; the connection ends with a GOAWAY that carries the code.
struct ProtocolFault: Error, Equatable {
    let code: ErrorCode
    let text: StaticString

    init(_ code: ErrorCode, _ text: StaticString) {
        self.code = code
        self.text = text
    }

    static func == (left: ProtocolFault, right: ProtocolFault) -> Bool {
        left.code == right.code
    }
}

// One frame as it was received. The payload is only valid until the next one is asked for.
@safe
struct Frame {
    let type: UInt8
    let flags: UInt8
    let stream: Int32
    let payload: UnsafeBufferPointer<UInt8>

    var payloadCount: Int { unsafe payload.count }

    func has(_ flag: UInt8) -> Bool { flags & flag != 0 }

    // The payload of DATA and HEADERS without padding and the old priority.
    func content() throws(ProtocolFault) -> UnsafeBufferPointer<UInt8> {
        if flags & (FrameFlags.padded | FrameFlags.priority) == 0 { return unsafe payload }
        var rest = unsafe payload
        if has(FrameFlags.padded) {
            guard let padding = unsafe payload.first, Int(padding) < payloadCount else {
                throw ProtocolFault(.protocolError, "a frame's padding is longer than the frame")
            }
            unsafe rest = UnsafeBufferPointer(rebasing: payload[1..<payload.count - Int(padding)])
        }
        if type == FrameType.headers, has(FrameFlags.priority) {
            guard rest.count >= 5 else {
                throw ProtocolFault(.frameSize, "HEADERS without the priority that they announce")
            }
            unsafe rest = UnsafeBufferPointer(rebasing: rest[5...])
        }
        return unsafe rest
    }

    // The big-endian number at an offset that the caller has checked.
    func number(at offset: Int) -> UInt32 {
        unsafe UInt32(bigEndian: UnsafeRawBufferPointer(payload).loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }
}
