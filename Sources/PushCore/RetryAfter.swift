/// The `Retry-After` field: whole seconds or an HTTP date.
package enum RetryAfter {
    /// No provider means more than this; larger values count as this, so that adding them to a time cannot overflow.
    package static let limit: Duration = .seconds(10 * 365 * 86_400)

    /// How long a field asks to wait, or nil where it is zero, past, negative or unreadable: then the ladder alone decides.
    /// - Parameter now: seconds since 1970, by the clock that the date is compared with.
    package static func parse(_ field: Span<UInt8>, now: Int64) -> Duration? {
        let trimmed = trim(field)
        guard let first = trimmed.first else { return nil }
        let seconds: Int64
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        if digits.contains(field[first]) {
            guard trimmed.allSatisfy({ digits.contains(field[$0]) }) else { return nil }
            seconds = field.wholeNumber(at: trimmed) ?? .max
        } else {
            guard let date = HTTPDate.parse(field.printable(at: trimmed, limit: 40)) else { return nil }
            seconds = date - now
        }
        guard seconds > 0 else { return nil }
        return min(limit, .seconds(min(seconds, Int64(Int32.max))))
    }

    private static func trim(_ field: Span<UInt8>) -> Range<Int> {
        var (start, end) = (0, field.count)
        while start < end, field[start] == 0x20 || field[start] == 0x09 { start += 1 }
        while start < end, field[end - 1] == 0x20 || field[end - 1] == 0x09 { end -= 1 }
        return start..<end
    }
}

/// The three date forms of RFC 9110: IMF-fixdate, RFC 850 and asctime.
package enum HTTPDate {
    /// Seconds since 1970, or nil for anything else. The name of the weekday is not checked.
    package static func parse(_ text: String) -> Int64? {
        let words = text.split(whereSeparator: { " ,-".contains($0) }).map(String.init)
        switch words.count {
        case 6 where words[5] == "GMT":
            // Sun, 06 Nov 1994 08:49:37 GMT and Sunday, 06-Nov-94 08:49:37 GMT
            return seconds(day: words[1], month: words[2], year: words[3], time: words[4])
        case 5:
            // Sun Nov  6 08:49:37 1994
            return seconds(day: words[2], month: words[1], year: words[4], time: words[3])
        default: return nil
        }
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private static func seconds(day: String, month: String, year: String, time: String) -> Int64? {
        let parts = time.split(separator: ":", omittingEmptySubsequences: false).map { Int64($0) ?? -1 }
        guard let day = Int64(day), let monthIndex = months.firstIndex(of: month), var year = Int64(year),
            parts.count == 3, (1...31).contains(day), (0...9_999).contains(year),
            (0...23).contains(parts[0]), (0...59).contains(parts[1]), (0...60).contains(parts[2])
        else { return nil }
        if year < 100 {
            year += year < 70 ? 2_000 : 1_900
        }
        return daysSince1970(year: year, month: Int64(monthIndex) + 1, day: day) * 86_400
            + parts[0] * 3_600 + parts[1] * 60 + parts[2]
    }

    // Counts from 1 March, so that the leap day is the last of the year.
    private static func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
    }
}
