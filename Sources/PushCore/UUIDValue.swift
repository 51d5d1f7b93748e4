/// A UUID: 16 bytes, ordered and compared as the bytes are.
package struct UUIDValue: Hashable, Sendable {
    /// Bytes 0 to 7, the first in the highest place.
    package let high: UInt64
    /// Bytes 8 to 15, likewise.
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// A UUID of 16 bytes; nil for any other number of bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        var words: (high: UInt64, low: UInt64) = (0, 0)
        for (position, byte) in bytes.enumerated() {
            if position < 8 {
                words.high = words.high << 8 | UInt64(byte)
            } else {
                words.low = words.low << 8 | UInt64(byte)
            }
        }
        self.init(high: words.high, low: words.low)
    }

    /// Reads the canonical form `8-4-4-4-12` in either case; nil for anything else.
    package init?(_ text: some StringProtocol) {
        var words: (high: UInt64, low: UInt64) = (0, 0)
        var position = 0
        for byte in text.utf8 {
            switch position {
            case 8, 13, 18, 23:
                guard byte == UInt8(ascii: "-") else { return nil }
            case 0..<18:
                guard let digit = Hex.value(ofDigit: byte) else { return nil }
                words.high = words.high << 4 | UInt64(digit)
            case 18..<36:
                guard let digit = Hex.value(ofDigit: byte) else { return nil }
                words.low = words.low << 4 | UInt64(digit)
            default:
                return nil
            }
            position += 1
        }
        guard position == 36 else { return nil }
        self.init(high: words.high, low: words.low)
    }

    /// A random UUID (version 4).
    package static func random() -> UUIDValue {
        var generator = SystemRandomNumberGenerator()
        return random(using: &generator)
    }

    /// A random UUID (version 4) from the given source.
    package static func random(using generator: inout some RandomNumberGenerator) -> UUIDValue {
        let high: UInt64 = generator.next()
        let low: UInt64 = generator.next()
        return UUIDValue(high: high & ~0xF000 | 0x4000, low: low & ~(0b11 << 62) | 0b10 << 62)
    }

    /// A time-ordered UUID (version 7): milliseconds, then the rest of the microseconds, then 62 random bits.
    package static func uuidV7(now: WallClock.Instant) -> UUIDValue {
        var generator = SystemRandomNumberGenerator()
        return uuidV7(now: now, using: &generator)
    }

    /// A time-ordered UUID (version 7) whose random bits come from the given source.
    package static func uuidV7(
        now: WallClock.Instant,
        using generator: inout some RandomNumberGenerator
    ) -> UUIDValue {
        let microseconds = UInt64(clamping: now.microsecondsSinceEpoch)
        let (milliseconds, rest) = microseconds.quotientAndRemainder(dividingBy: 1000)
        // Twelve bits hold the fraction of the millisecond in 1/4096, so that ids sort by time below it too.
        let fraction = rest * 4096 / 1000
        let low: UInt64 = generator.next()
        return UUIDValue(high: milliseconds << 16 | 0x7000 | fraction, low: low & ~(0b11 << 62) | 0b10 << 62)
    }

    /// The 16 bytes.
    package var bytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(16)
        append(to: &bytes)
        return bytes
    }

    /// Adds the 16 bytes to a buffer.
    package func append(to buffer: inout [UInt8]) {
        for position in 0..<16 {
            let word = position < 8 ? high : low
            buffer.append(UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * (position & 7))))
        }
    }
}

extension UUIDValue: Comparable {
    package static func < (left: UUIDValue, right: UUIDValue) -> Bool {
        left.high == right.high ? left.low < right.low : left.high < right.high
    }
}

extension UUIDValue: CustomStringConvertible {
    /// The canonical lower-case form, 36 characters.
    package var description: String {
        String(decoding: text, as: UTF8.self)
    }

    /// The canonical lower-case form as 36 ASCII bytes.
    package var text: [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(36)
        appendText(to: &text)
        return text
    }

    /// Adds the canonical lower-case form, 36 ASCII bytes, to a buffer.
    ///
    /// Once a message on the hot path, so the room is made in one piece and filled eight digits at a time.
    package func appendText(to buffer: inout [UInt8]) {
        let start = buffer.count
        buffer += Self.hyphens
        var text = buffer.mutableSpan
        let first = hexDigits(of: UInt32(truncatingIfNeeded: high >> 32))
        let second = hexDigits(of: UInt32(truncatingIfNeeded: high))
        let third = hexDigits(of: UInt32(truncatingIfNeeded: low >> 32))
        let fourth = hexDigits(of: UInt32(truncatingIfNeeded: low))
        for position in 0..<8 {
            let shift = UInt64(56 - 8 * position)
            text[start + position] = UInt8(truncatingIfNeeded: first >> shift)
            text[start + 28 + position] = UInt8(truncatingIfNeeded: fourth >> shift)
        }
        for position in 0..<4 {
            let upper = UInt64(56 - 8 * position)
            let lower = upper - 32
            text[start + 9 + position] = UInt8(truncatingIfNeeded: second >> upper)
            text[start + 14 + position] = UInt8(truncatingIfNeeded: second >> lower)
            text[start + 19 + position] = UInt8(truncatingIfNeeded: third >> upper)
            text[start + 24 + position] = UInt8(truncatingIfNeeded: third >> lower)
        }
    }

    private static let hyphens = [UInt8](repeating: UInt8(ascii: "-"), count: 36)
}

// The eight hex digits of a number as ASCII, the first in the highest byte; all at once instead of one by one.
private func hexDigits(of number: UInt32) -> UInt64 {
    var spread = UInt64(number)
    spread = (spread & 0xFFFF_0000) << 16 | spread & 0xFFFF
    spread = (spread & 0xFF00_0000_FF00) << 8 | spread & 0x00FF_0000_00FF
    spread = (spread & 0x00F0_00F0_00F0_00F0) << 4 | spread & 0x000F_000F_000F_000F
    // One in each byte that holds 10 to 15: 'a' is 39 further on than what follows '9'.
    let letters = (spread &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
    return spread &+ 0x3030_3030_3030_3030 &+ letters &* 39
}
