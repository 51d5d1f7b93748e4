package import PushCore

/// What an answer of APNs means.
package enum APNsResponse {
    /// Reads an answer. Never fails: what cannot be read is judged by its status. Status 200 costs nothing.
    /// - Parameters:
    ///   - body: as much of the body as was kept; may be cut, empty or no JSON.
    ///   - registeredAtMilliseconds: when the app last registered this token, since 1970; nil where unknown.
    ///   - hasOwnTopic: the content overrides topic or push type: what is wrong with them is the message's own fault.
    ///   - retryAfter: the field `Retry-After`. Apple does not document it; a proxy on the way may send it.
    package static func interpret(
        status: Int,
        body: Span<UInt8>,
        registeredAtMilliseconds: Int64? = nil,
        hasOwnTopic: Bool = false,
        retryAfter: Duration? = nil
    ) -> Verdict {
        if status == 200 { return .accepted }
        let answer = APNsErrorBody(scanning: body)
        guard let reasonRange = answer.reason else { return judge(status: status, retryAfter: retryAfter) }
        guard let row = APNsReason.table.first(where: { body.holds($0.reason, at: reasonRange) }) else {
            let text = body.printable(at: reasonRange, limit: RejectionReason.lengthLimit)
            return judge(unknown: RejectionReason(text: text), status: status, retryAfter: retryAfter)
        }
        let reason = RejectionReason(text: row.reason)
        switch row.effect {
        // A token is dead for a topic, and this one was not the app's.
        case .dead where hasOwnTopic, .deadSinceTimestamp where hasOwnTopic, .topic where hasOwnTopic:
            return Verdict(.rejected(reason), .payloadFault(suspectsToken: false))
        case .topic:
            return Verdict(.rejected(reason), .credentialRefused)
        case .dead(let certainty):
            return Verdict(.rejected(reason), .deadToken(DeadToken(certainty)))
        case .deadSinceTimestamp:
            if let since = answer.timestamp, let registered = registeredAtMilliseconds, registered > since {
                return Verdict(.rejected(reason), .settle)
            }
            return Verdict(
                .rejected(reason),
                .deadToken(DeadToken(.stated, invalidSinceMilliseconds: answer.timestamp))
            )
        case .payload:
            return Verdict(.rejected(reason), .payloadFault(suspectsToken: false))
        case .credential(let replacesConnection):
            return Verdict(.rejected(reason), .credentialRefused, replacesConnection: replacesConnection)
        case .refresh(let replacesConnection):
            return Verdict(.rejected(reason), .refreshCredential, replacesConnection: replacesConnection)
        case .retry(let advice, let replacesConnection):
            let advice = advice.waiting(atLeast: retryAfter)
            return Verdict(.rejected(reason), .retry(advice), replacesConnection: replacesConnection)
        case .throttled(let advice, let replacesConnection):
            let advice = advice.waiting(atLeast: retryAfter)
            return Verdict(
                .throttled(reason, retryAfter: advice.minimum),
                .retry(advice),
                replacesConnection: replacesConnection
            )
        }
    }

    /// An answer without a readable reason. A 410 is not believed without its body: it may come from a proxy.
    private static func judge(status: Int, retryAfter: Duration?) -> Verdict {
        let reason = RejectionReason.status(status)
        return switch status {
        case 403: Verdict(.rejected(reason), .refreshCredential)
        case 410: Verdict(.rejected(reason), .settle, alert: .goneWithoutWord)
        case 300..<400, 407: Verdict(.rejected(reason), .credentialRefused)
        default: judge(unknown: reason, status: status, retryAfter: retryAfter)
        }
    }

    /// A reason that is not in the table, by the class of its status.
    private static func judge(unknown reason: RejectionReason, status: Int, retryAfter: Duration?) -> Verdict {
        switch status {
        case 408, 500...599: Verdict(.rejected(reason), .retry(RetryAdvice(.provider, minimum: retryAfter)))
        case 429:
            Verdict(
                .throttled(reason, retryAfter: retryAfter),
                .retry(APNsReason.devicePause.waiting(atLeast: retryAfter))
            )
        case 400..<500 where status != 410:
            Verdict(.rejected(reason), .payloadFault(suspectsToken: false), alert: .unknownReason)
        default: Verdict(.rejected(reason), .settle, alert: .unknownReason)
        }
    }
}

/// The two members of an error body that matter.
private struct APNsErrorBody {
    var reason: Range<Int>?
    /// Milliseconds since 1970.
    var timestamp: Int64?

    /// To the end of the year 9999: what lies beyond names no moment, and neither our arithmetic nor the database could hold it.
    private static let plausibleTimes: ClosedRange<Int64> = 1...253_402_300_799_999

    init(scanning body: Span<UInt8>) {
        var scanner = JSONScanner()
        guard scanner.next(in: body) == .beginObject else { return }
        var key: Range<Int>?
        while let token = scanner.next(in: body) {
            switch token {
            case .key(let range): key = scanner.depth == 1 ? range : nil
            case .string(let range):
                if let key, body.holds("reason", at: key) { reason = range }
            case .literal(let range):
                if let key, body.holds("timestamp", at: key), let value = body.wholeNumber(at: range),
                    Self.plausibleTimes.contains(value)
                {
                    timestamp = value
                }
            case .beginObject, .beginArray, .endObject, .endArray: key = nil
            }
        }
    }
}
