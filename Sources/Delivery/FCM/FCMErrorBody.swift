import PushCore

/// What an error body of FCM says, as ranges of the body. Order of keys does not matter; what is missing is nil.
struct FCMErrorBody {
    /// `error.status`, such as `NOT_FOUND`.
    var status: Range<Int>?
    /// `error.message`.
    var message: Range<Int>?
    /// The error code of the detail FcmError.
    var errorCode: Range<Int>?
    /// The reason of the detail ErrorInfo.
    var infoReason: Range<Int>?
    /// The detail ApnsError.
    var apnsReason: Range<Int>?
    var apnsStatus: Int64?
    /// Whether a field violation names the token, and whether one names anything else.
    var violatesToken = false
    var violatesOtherField = false
    /// Whether the detail QuotaFailure speaks of a device.
    var isQuotaOfDevice = false

    private enum DetailKind { case fcmError, apnsError, errorInfo, badRequest, quotaFailure, other }

    // One element of `error.details`, until its end shows what it is.
    private struct Detail {
        var kind: DetailKind?
        var errorCode: Range<Int>?
        var reason: Range<Int>?
        var statusCode: Int64?
        var violatesToken = false
        var violatesOtherField = false
        var namesDevice = false
    }

    init(scanning body: Span<UInt8>) {
        var scanner = JSONScanner()
        guard scanner.next(in: body) == .beginObject else { return }
        var key: Range<Int>?
        var inError = false
        var inDetails = false
        var detail = Detail()
        while let token = scanner.next(in: body) {
            let depth = scanner.depth
            switch token {
            case .key(let range):
                key = range
                if depth == 1 { inError = body.holds("error", at: range) }
                if depth == 2 { inDetails = inError && body.holds("details", at: range) }
            case .string(let range), .literal(let range):
                guard let name = key else { continue }
                key = nil
                if depth == 2, inError {
                    readError(name, range, in: body)
                } else if depth >= 4, inDetails {
                    Self.read(name, range, depth: depth, into: &detail, in: body)
                }
            case .endObject:
                if depth == 3, inDetails {
                    commit(detail)
                    detail = Detail()
                }
            case .beginObject, .beginArray, .endArray: break
            }
        }
        commit(detail)
    }

    private mutating func readError(_ name: Range<Int>, _ value: Range<Int>, in body: Span<UInt8>) {
        if body.holds("status", at: name) { status = value }
        if body.holds("message", at: name) { message = value }
    }

    private static func read(
        _ name: Range<Int>,
        _ value: Range<Int>,
        depth: Int,
        into detail: inout Detail,
        in body: Span<UInt8>
    ) {
        if depth > 4 {
            guard depth == 6 else { return }
            // error.details[].violations[].subject and description: Google does not say what stands there.
            if body.holds("subject", at: name) || body.holds("description", at: name) {
                let text = body.printable(at: value, limit: 200).lowercased()
                detail.namesDevice = detail.namesDevice || text.contains("device")
            }
            // error.details[].fieldViolations[].field
            guard body.holds("field", at: name) else { return }
            if body.holds("message.token", at: value) || body.holds("message.fid", at: value) {
                detail.violatesToken = true
            } else {
                detail.violatesOtherField = true
            }
        } else if body.holds("@type", at: name) {
            detail.kind = kind(ofType: value, in: body)
        } else if body.holds("errorCode", at: name) {
            detail.errorCode = value
        } else if body.holds("reason", at: name) {
            detail.reason = value
        } else if body.holds("statusCode", at: name) {
            detail.statusCode = body.wholeNumber(at: value)
        }
    }

    private static func kind(ofType value: Range<Int>, in body: Span<UInt8>) -> DetailKind {
        if body.ends("google.firebase.fcm.v1.FcmError", at: value) { return .fcmError }
        if body.ends("google.firebase.fcm.v1.ApnsError", at: value) { return .apnsError }
        if body.ends("google.rpc.ErrorInfo", at: value) { return .errorInfo }
        if body.ends("google.rpc.BadRequest", at: value) { return .badRequest }
        if body.ends("google.rpc.QuotaFailure", at: value) { return .quotaFailure }
        return .other
    }

    private mutating func commit(_ detail: Detail) {
        switch detail.kind {
        case .fcmError: errorCode = errorCode ?? detail.errorCode
        case .apnsError:
            apnsReason = apnsReason ?? detail.reason
            apnsStatus = apnsStatus ?? detail.statusCode
        case .errorInfo: infoReason = infoReason ?? detail.reason
        case .badRequest:
            violatesToken = violatesToken || detail.violatesToken
            violatesOtherField = violatesOtherField || detail.violatesOtherField
        case .quotaFailure: isQuotaOfDevice = isQuotaOfDevice || detail.namesDevice
        case .other, nil: break
        }
    }
}

extension Span<UInt8> {
    fileprivate func ends(_ suffix: String, at range: Range<Int>) -> Bool {
        let length = suffix.utf8.count
        guard range.count >= length else { return false }
        return holds(suffix, at: range.upperBound - length..<range.upperBound)
    }
}
