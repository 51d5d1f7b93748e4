package import PushCore

/// What an answer of FCM means.
package enum FCMResponse {
    /// How long to wait after 429 where FCM does not say.
    static let quotaPause: Duration = .seconds(60)
    /// How long to wait after a request that was given up without an answer, as FCM asks.
    static let timeOutPause: Duration = .seconds(10)
    /// Attempts in all where FCM says no more than that something went wrong.
    private static let fewAttempts = 5

    /// Reads an answer. Never fails: what cannot be read is judged by its status. Status 200 costs nothing.
    /// - Parameters:
    ///   - body: as much of the body as was kept; may be cut, empty or a web page.
    ///   - retryAfter: the field `Retry-After`, see `RetryAfter`.
    ///   - hasOwnTarget: the content says itself which apps may get it: what looks like a dead token may be its own fault.
    package static func interpret(
        status: Int,
        body: Span<UInt8>,
        retryAfter: Duration? = nil,
        hasOwnTarget: Bool = false
    ) -> Verdict {
        if status == 200 { return .accepted }
        let verdict = judge(status: status, body: body, retryAfter: retryAfter)
        guard hasOwnTarget, case .deadToken = verdict.disposition else { return verdict }
        return Verdict(verdict.outcome, .payloadFault(suspectsToken: false))
    }

    private static func judge(status: Int, body: Span<UInt8>, retryAfter: Duration?) -> Verdict {
        let answer = FCMErrorBody(scanning: body)
        guard let code = answer.errorCode else {
            return judge(status: status, answer: answer, body: body, retryAfter: retryAfter)
        }
        guard let row = FCMReason.table.first(where: { body.holds($0.code, at: code) }) else {
            let text = body.printable(at: code, limit: RejectionReason.lengthLimit)
            return judge(unknown: RejectionReason(text: text), status: status, retryAfter: retryAfter)
        }
        let reason = RejectionReason(text: row.code)
        switch row.effect {
        case .dead(let certainty): return Verdict(.rejected(reason), .deadToken(DeadToken(certainty)))
        case .invalidArgument: return judge(invalidArgument: reason, answer: answer, body: body)
        case .retry where status == 429, .retryFew where status == 429: return throttled(reason, retryAfter: retryAfter)
        case .retry: return Verdict(.rejected(reason), .retry(RetryAdvice(.provider, minimum: retryAfter)))
        case .retryFew:
            let advice = RetryAdvice(.provider, minimum: retryAfter, attemptLimit: fewAttempts)
            return Verdict(.rejected(reason), .retry(advice))
        case .throttled:
            let obstacle: RetryAdvice.Obstacle = answer.isQuotaOfDevice ? .device : .provider
            return throttled(reason, obstacle, retryAfter: retryAfter)
        case .thirdPartyKey: return Verdict(.rejected(reason), .settle, alert: .thirdPartyKey)
        }
    }

    /// The message name of an accepted answer, such as `projects/p/messages/1`, as a range of the body. Allocates nothing.
    package static func nameRange(in body: Span<UInt8>) -> Range<Int>? {
        var scanner = JSONScanner()
        guard scanner.next(in: body) == .beginObject else { return nil }
        while let token = scanner.next(in: body) {
            guard case .key(let key) = token, scanner.depth == 1, body.holds("name", at: key) else { continue }
            guard case .string(let name) = scanner.next(in: body) else { return nil }
            return name
        }
        return nil
    }

    /// Tells a bad token from a bad payload; the first row that matches wins. The texts are no contract, hence the last row.
    private static func judge(
        invalidArgument reason: RejectionReason,
        answer: FCMErrorBody,
        body: Span<UInt8>
    ) -> Verdict {
        let suspect = Verdict(.rejected(reason), .deadToken(DeadToken(.unconfirmed)))
        if let apns = answer.apnsReason {
            if body.holds("Unregistered", at: apns) || body.holds("ExpiredToken", at: apns) {
                return Verdict(.rejected(reason), .deadToken(DeadToken(.stated)))
            }
            if body.holds("BadDeviceToken", at: apns) { return suspect }
        }
        if answer.apnsStatus == 410 { return Verdict(.rejected(reason), .deadToken(DeadToken(.stated))) }
        if answer.violatesToken { return suspect }
        if answer.violatesOtherField { return Verdict(.rejected(reason), .payloadFault(suspectsToken: false)) }
        let message = answer.message.map { body.printable(at: $0, limit: 512).lowercased() } ?? ""
        if message.contains("registration token is not a valid") || message.contains("invalid registration token") {
            return suspect
        }
        let payloadTexts = ["too big", "too large", "maximum is 4k", "data key", "payload"]
        let namesPayload = payloadTexts.contains { message.contains($0) }
        return Verdict(.rejected(reason), .payloadFault(suspectsToken: !namesPayload))
    }

    /// An answer without an error code of FCM's own: from Google's front end, or about the caller and not the token.
    private static func judge(
        status: Int,
        answer: FCMErrorBody,
        body: Span<UInt8>,
        retryAfter: Duration?
    ) -> Verdict {
        let named = answer.infoReason ?? answer.status
        let reason =
            named.map { RejectionReason(text: body.printable(at: $0, limit: RejectionReason.lengthLimit)) }
            ?? .status(status)
        return switch status {
        case 401: Verdict(.rejected(reason), .refreshCredential)
        case 403, 404, 407, 300..<400: Verdict(.rejected(reason), .credentialRefused)
        case 400 where answer.violatesToken: Verdict(.rejected(reason), .deadToken(DeadToken(.unconfirmed)))
        case 400: Verdict(.rejected(reason), .payloadFault(suspectsToken: false))
        default: judge(unknown: reason, status: status, retryAfter: retryAfter)
        }
    }

    /// A code that is not in the table, by the class of its status.
    private static func judge(unknown reason: RejectionReason, status: Int, retryAfter: Duration?) -> Verdict {
        switch status {
        case 429: throttled(reason, retryAfter: retryAfter)
        case 408, 500...599: Verdict(.rejected(reason), .retry(RetryAdvice(.provider, minimum: retryAfter)))
        case 400..<500: Verdict(.rejected(reason), .payloadFault(suspectsToken: false), alert: .unknownReason)
        default: Verdict(.rejected(reason), .settle, alert: .unknownReason)
        }
    }

    private static func throttled(
        _ reason: RejectionReason,
        _ obstacle: RetryAdvice.Obstacle = .provider,
        retryAfter: Duration?
    ) -> Verdict {
        Verdict(
            .throttled(reason, retryAfter: retryAfter),
            .retry(RetryAdvice(obstacle, minimum: retryAfter ?? quotaPause))
        )
    }
}
