import PushCore

// PostgreSQL's binary forms are big-endian throughout.

extension [UInt8] {
    @inline(__always)
    mutating func appendBigEndian(_ value: some FixedWidthInteger) {
        unsafe Swift.withUnsafeBytes(of: value.bigEndian) { unsafe append(contentsOf: $0) }
    }

    /// Writes over bytes that are there already.
    @inline(__always)
    mutating func replaceBigEndian(at offset: Int, with value: some FixedWidthInteger & BitwiseCopyable) {
        precondition(offset + value.bitWidth / 8 <= count, "only what is there already can be written over")
        unsafe withUnsafeMutableBytes { bytes in
            unsafe bytes.storeBytes(of: value.bigEndian, toByteOffset: offset, as: type(of: value))
        }
    }

    @inline(__always)
    mutating func appendBinary(_ value: UUIDValue) {
        appendBigEndian(value.high)
        appendBigEndian(value.low)
    }

    /// The first and the last moment stand for PostgreSQL's -infinity and infinity, as they do when read.
    @inline(__always)
    mutating func appendBinary(_ value: WallClock.Instant) {
        let microseconds = value.microsecondsSinceEpoch
        let (shifted, overflow) = microseconds.subtractingReportingOverflow(microsecondsFrom1970To2000)
        appendBigEndian(microseconds == .max || overflow ? microseconds : shifted)
    }
}
