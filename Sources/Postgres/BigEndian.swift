import PushCore

// PostgreSQL's binary forms are big-endian throughout.

extension [UInt8] {
    @inline(__always)
    mutating func appendBigEndian(_ value: some FixedWidthInteger) {
        unsafe Swift.withUnsafeBytes(of: value.bigEndian) { unsafe append(contentsOf: $0) }
    }

    /// Writes over four bytes that are there already.
    mutating func replaceBigEndian(at offset: Int, with value: Int32) {
        unsafe Swift.withUnsafeBytes(of: value.bigEndian) { bytes in
            for unsafe(position, byte) in unsafe bytes.enumerated() { self[offset + position] = byte }
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
