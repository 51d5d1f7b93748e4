internal import CNghttp2

// One header block of an answer, looked at field by field: what its status is, and whether RFC 9113 (section 8) calls it
// malformed.
struct ResponseCheck {
    private(set) var isMalformed = false
    // 0 while there is none.
    private(set) var status: UInt16 = 0
    // -1 when the block has no content-length.
    private(set) var announcedBytes: Int64 = -1
    private let isTrailer: Bool
    private var hasField = false

    init(isTrailer: Bool) {
        self.isTrailer = isTrailer
    }

    // True for a field that an owner may want to see.
    mutating func take(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Bool {
        if unsafe name.first == UInt8(ascii: ":") {
            unsafe takeStatus(name, value)
            return false
        }
        hasField = true
        guard unsafe nghttp2_check_header_name(name.baseAddress, name.count) != 0,
            unsafe nghttp2_check_header_value_rfc9113(value.baseAddress, value.count) != 0
        else {
            isMalformed = true
            return false
        }
        switch name.count {
        case 7, 10, 16, 17:
            if unsafe ResponseCheck.isOfConnection(name) { isMalformed = true }
        case 14:
            if unsafe ResponseCheck.equal(name, "content-length") { unsafe takeLength(value) }
        default: break
        }
        return !isMalformed
    }

    // The block is over: an answer's head must have a status, and one that HTTP/2 knows.
    mutating func end() {
        if !isTrailer, status < 100 || status == 101 { isMalformed = true }
    }

    private mutating func takeStatus(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        guard unsafe ResponseCheck.equal(name, ":status"), !isTrailer, !hasField, status == 0, value.count == 3 else {
            isMalformed = true
            return
        }
        for index in 0..<value.count {
            let digit = unsafe value[index]
            guard digit >= 0x30, digit <= 0x39 else {
                isMalformed = true
                return
            }
            status = status * 10 + UInt16(digit - 0x30)
        }
    }

    private mutating func takeLength(_ value: UnsafeBufferPointer<UInt8>) {
        var length: Int64 = 0
        // Nobody sends us a body whose length has more digits.
        var isGood = !value.isEmpty && value.count <= 15
        for index in 0..<value.count where isGood {
            let digit = unsafe value[index]
            isGood = digit >= 0x30 && digit <= 0x39
            length = length * 10 + Int64(digit) - 0x30
        }
        if !isGood || announcedBytes >= 0 && announcedBytes != length { isMalformed = true }
        announcedBytes = length
    }

    // Fields of HTTP/1.1 that speak of its connection.
    private static func isOfConnection(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        unsafe equal(name, "upgrade") || equal(name, "connection") || equal(name, "keep-alive")
            || equal(name, "proxy-connection") || equal(name, "transfer-encoding")
    }

    private static func equal(_ name: UnsafeBufferPointer<UInt8>, _ text: StaticString) -> Bool {
        guard name.count == text.utf8CodeUnitCount else { return false }
        for index in 0..<name.count where unsafe name[index] != text.utf8Start[index] { return false }
        return true
    }
}
