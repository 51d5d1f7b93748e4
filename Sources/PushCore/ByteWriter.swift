/// A growing run of bytes with the few ways of writing that requests and payloads need. Reuse it: `removeAll` keeps the memory.
package struct ByteWriter: Sendable {
    /// What was written.
    package private(set) var bytes: [UInt8] = []

    /// How many bytes were written.
    package var count: Int { bytes.count }

    /// Makes an empty writer with room for `capacity` bytes.
    package init(capacity: Int = 0) {
        bytes.reserveCapacity(capacity)
    }

    /// Forgets what was written and keeps the memory.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
    }

    /// Appends one byte.
    package mutating func append(_ byte: UInt8) {
        bytes.append(byte)
    }

    /// Appends bytes as they are.
    package mutating func append(contentsOf other: some Sequence<UInt8>) {
        bytes.append(contentsOf: other)
    }

    /// Appends the UTF-8 of a text as it is.
    package mutating func append(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    /// Appends a whole number in decimal digits, with `-` where it is negative.
    package mutating func append(decimal number: some FixedWidthInteger) {
        var magnitude = UInt64(number.magnitude)
        if number < 0 {
            bytes.append(UInt8(ascii: "-"))
        }
        let start = bytes.count
        repeat {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: magnitude % 10))
            magnitude /= 10
        } while magnitude > 0
        bytes[start...].reverse()
    }

    /// Appends `count` low hex digits of a number, lower case, most significant first.
    package mutating func append(hex number: UInt64, digits count: Int) {
        for position in stride(from: count - 1, through: 0, by: -1) {
            bytes.append(Hex.digit(of: UInt8(truncatingIfNeeded: (number >> UInt64(position * 4)) & 0xF)))
        }
    }
}
