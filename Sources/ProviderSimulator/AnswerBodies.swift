/// Bodies that break naive parsers, made to order.
enum AnswerBodies {
    static func decision(status: Int, _ kind: AnswerBody, now: Int64) -> Decision {
        let (contentType, body): (String?, [UInt8]) =
            switch kind {
            case .html: ("text/html", Array("<html><head><title>\(status)</title></head>[busy]</html>".utf8))
            case .empty: (nil, [])
            case .truncatedJSON: ("application/json", Array("{\"reason\":\"BadDev".utf8))
            case .notJSON: ("application/json", Array("not json [".utf8))
            case .oneMegabyte: ("text/plain", [UInt8](repeating: UInt8(ascii: "x"), count: 1_048_576))
            case .unknownReason: ("application/json", Array("{\"reason\":\"NobodyHasHeardOfThis\"}".utf8))
            case .extraKeys:
                (
                    "application/json",
                    Array(
                        "{\"extra\":{\"reason\":\"Inner\"},\"reason\":\"Unregistered\",\"timestamp\":\(now),\"more\":[1,null]}"
                            .utf8
                    )
                )
            case .jsonArray: ("application/json", Array("[{\"reason\":\"BadDeviceToken\"}]".utf8))
            case .textTimestamp: ("application/json", Array("{\"reason\":\"Unregistered\",\"timestamp\":\"x\"}".utf8))
            }
        return Decision(status: status, reason: "body:\(kind.rawValue)", contentType: contentType, body: body)
    }
}

/// The text of a `retry-after` header.
func retryAfterText(_ value: RetryAfter, now unixSeconds: Int64) -> String {
    switch value {
    case .seconds(let seconds): String(seconds)
    case .dateInSeconds(let seconds): httpDate(unixSeconds + seconds)
    case .text(let text): text
    }
}

/// An HTTP date, `Sun, 06 Nov 1994 08:49:37 GMT`.
func httpDate(_ unixSeconds: Int64) -> String {
    let days = Int(unixSeconds / 86_400) - (unixSeconds % 86_400 < 0 ? 1 : 0)
    let second = Int(unixSeconds) - days * 86_400
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][((days % 7) + 7) % 7]
    let (year, month, day) = civilDate(daysSince1970: days)
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    func two(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
    let time = "\(two(second / 3600)):\(two(second / 60 % 60)):\(two(second % 60))"
    return "\(weekday), \(two(day)) \(months[month - 1]) \(year) \(time) GMT"
}

/// Year, month and day of a day number, by counting 400-year eras from 1 March of year 0.
private func civilDate(daysSince1970 days: Int) -> (year: Int, month: Int, day: Int) {
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
}
