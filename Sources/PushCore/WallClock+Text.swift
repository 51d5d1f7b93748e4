extension WallClock.Instant: CustomStringConvertible {
    /// RFC 3339 in UTC with six decimals, such as `2026-11-30T12:00:00.000000Z`.
    package var description: String {
        var text: [UInt8] = []
        text.reserveCapacity(27)
        appendText(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    /// Adds the RFC 3339 form, 27 ASCII bytes for years 0 to 9999, to a buffer.
    package func appendText(to buffer: inout [UInt8]) {
        let seconds = secondsSinceEpoch
        let remainder = microsecondsSinceEpoch % 1_000_000
        let microseconds = remainder < 0 ? remainder + 1_000_000 : remainder
        var days = seconds / 86400
        var secondOfDay = seconds % 86400
        if secondOfDay < 0 {
            days -= 1
            secondOfDay += 86400
        }
        let date = CivilDate(daysSinceEpoch: days)
        buffer.appendDecimal(date.year, digits: 4)
        buffer.append(UInt8(ascii: "-"))
        buffer.appendDecimal(date.month, digits: 2)
        buffer.append(UInt8(ascii: "-"))
        buffer.appendDecimal(date.day, digits: 2)
        buffer.append(UInt8(ascii: "T"))
        buffer.appendDecimal(secondOfDay / 3600, digits: 2)
        buffer.append(UInt8(ascii: ":"))
        buffer.appendDecimal(secondOfDay / 60 % 60, digits: 2)
        buffer.append(UInt8(ascii: ":"))
        buffer.appendDecimal(secondOfDay % 60, digits: 2)
        buffer.append(UInt8(ascii: "."))
        buffer.appendDecimal(microseconds, digits: 6)
        buffer.append(UInt8(ascii: "Z"))
    }

    /// Reads RFC 3339 with an offset or `Z`; decimals beyond six are cut off; nil for anything else.
    package init?(_ text: some StringProtocol) {
        var scanner = DigitScanner(bytes: Array(text.utf8))
        guard
            let year = scanner.number(digits: 4), scanner.skip("-"),
            let month = scanner.number(digits: 2), scanner.skip("-"),
            let day = scanner.number(digits: 2), scanner.skip("T") || scanner.skip("t") || scanner.skip(" "),
            let hour = scanner.number(digits: 2), hour < 24, scanner.skip(":"),
            let minute = scanner.number(digits: 2), minute < 60, scanner.skip(":"),
            let second = scanner.number(digits: 2), second < 61,
            let date = CivilDate(year: year, month: month, day: day),
            let microsecond = scanner.fraction(),
            let offset = scanner.offsetSeconds(),
            scanner.isAtEnd
        else { return nil }
        let seconds = date.daysSinceEpoch * 86400 + hour * 3600 + minute * 60 + second - offset
        self.init(microsecondsSinceEpoch: seconds * 1_000_000 + microsecond)
    }
}

/// A date of the Gregorian calendar, carried on before its introduction.
private struct CivilDate {
    let year: Int64
    let month: Int64
    let day: Int64

    /// Counts in eras of 400 years whose years begin in March, so that the leap day comes last.
    init(daysSinceEpoch: Int64) {
        let shifted = daysSinceEpoch + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    }

    init?(year: Int64, month: Int64, day: Int64) {
        guard 1...12 ~= month, day >= 1 else { return nil }
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let lengths: [Int64] = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        guard day <= lengths[Int(month) - 1] else { return nil }
        self.year = year
        self.month = month
        self.day = day
    }

    var daysSinceEpoch: Int64 {
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}

/// Reads fixed-width numbers out of a short text.
private struct DigitScanner {
    let bytes: [UInt8]
    var position = 0

    init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    var isAtEnd: Bool { position == bytes.count }

    mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard position < bytes.count, bytes[position] == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    mutating func digit() -> Int64? {
        guard position < bytes.count, UInt8(ascii: "0")...UInt8(ascii: "9") ~= bytes[position] else { return nil }
        position += 1
        return Int64(bytes[position - 1] - UInt8(ascii: "0"))
    }

    mutating func number(digits: Int) -> Int64? {
        var value: Int64 = 0
        for _ in 0..<digits {
            guard let digit = digit() else { return nil }
            value = value * 10 + digit
        }
        return value
    }

    /// The decimals after the seconds as microseconds: 0 when there are none, nil for a point without digits.
    mutating func fraction() -> Int64? {
        guard skip(".") else { return 0 }
        var microseconds: Int64 = 0
        var count = 0
        while let digit = digit() {
            if count < 6 { microseconds = microseconds * 10 + digit }
            count += 1
        }
        guard count > 0 else { return nil }
        for _ in min(count, 6)..<6 { microseconds *= 10 }
        return microseconds
    }

    mutating func offsetSeconds() -> Int64? {
        if skip("Z") || skip("z") { return 0 }
        let isNegative = skip("-")
        guard isNegative || skip("+") else { return nil }
        guard
            let hours = number(digits: 2), hours < 24, skip(":"),
            let minutes = number(digits: 2), minutes < 60
        else { return nil }
        let seconds = hours * 3600 + minutes * 60
        return isNegative ? -seconds : seconds
    }
}

extension [UInt8] {
    /// Adds a number in decimal, with leading zeros up to the given number of digits.
    fileprivate mutating func appendDecimal(_ value: Int64, digits: Int) {
        if value < 0 { append(UInt8(ascii: "-")) }
        let text = String(value.magnitude)
        for _ in stride(from: text.utf8.count, to: digits, by: 1) { append(UInt8(ascii: "0")) }
        append(contentsOf: text.utf8)
    }
}
