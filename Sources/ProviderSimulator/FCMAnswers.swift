/// The answers of FCM: success, and every kind of error body.
enum FCMAnswers {
    private static let typePrefix = "type.googleapis.com/"

    static func accepted(name: String) -> Decision {
        Decision(
            status: 200,
            contentType: "application/json; charset=UTF-8",
            body: Array("{\n  \"name\": \(jsonQuoted(name))\n}\n".utf8)
        )
    }

    /// A request that is wrong in itself: 400 with BadRequest.
    static func badRequest(_ fields: [(field: String, description: String)], message: String) -> Decision {
        let violations = fields.map {
            "{\"field\":\(jsonQuoted($0.field)),\"description\":\(jsonQuoted($0.description))}"
        }
        let detail = Self.detail(
            "google.rpc.BadRequest",
            "\"fieldViolations\":[\(violations.joined(separator: ","))]"
        )
        return error(400, "INVALID_ARGUMENT", message, [detail], reason: "INVALID_ARGUMENT")
    }

    /// 401 for a bearer that is absent, unknown or expired.
    static func unauthenticated(_ reason: String) -> Decision {
        error(
            401,
            "UNAUTHENTICATED",
            "The request has no valid authentication credentials: an OAuth 2 access token is expected.",
            [detail("google.rpc.ErrorInfo", "\"reason\":\"\(reason)\",\"domain\":\"googleapis.com\",\"metadata\":{}")],
            reason: reason
        )
    }

    /// The answer for a scripted fault.
    static func fault(_ fault: FCMFault) -> Decision {
        switch fault {
        case .unregistered:
            error(404, "NOT_FOUND", "Requested entity was not found.", [fcm("UNREGISTERED")], reason: "UNREGISTERED")
        case .invalidToken, .invalidTokenField, .invalidField, .invalidGeneric, .tooBig, .apnsUnregistered,
            .unspecified,
            .unknownCode:
            invalidArgument(fault)
        case .senderMismatch:
            error(
                403,
                "PERMISSION_DENIED",
                "SenderId mismatch",
                [fcm("SENDER_ID_MISMATCH")],
                reason: "SENDER_ID_MISMATCH"
            )
        case .permissionDenied:
            error(
                403,
                "PERMISSION_DENIED",
                "Permission cloudmessaging.messages.create was denied on the project.",
                [],
                reason: "PERMISSION_DENIED"
            )
        case .quota, .deviceQuota, .quotaPlain: quotaExceeded(fault)
        case .unavailable:
            error(
                503,
                "UNAVAILABLE",
                "The service is currently unavailable.",
                [fcm("UNAVAILABLE")],
                reason: "UNAVAILABLE"
            )
        case .internal:
            error(500, "INTERNAL", "Internal error encountered.", [fcm("INTERNAL")], reason: "INTERNAL")
        case .thirdPartyAuth:
            error(
                401,
                "UNAUTHENTICATED",
                "Auth error from APNS or Web Push Service",
                [fcm("THIRD_PARTY_AUTH_ERROR"), apns(403, "InvalidProviderToken")],
                reason: "THIRD_PARTY_AUTH_ERROR"
            )
        case .apnsAuth:
            error(401, "UNAUTHENTICATED", "Auth error from APNS", [fcm("APNS_AUTH_ERROR")], reason: "APNS_AUTH_ERROR")
        case .accessTokenExpired: unauthenticated("ACCESS_TOKEN_EXPIRED")
        case .accessTokenInvalid: unauthenticated("ACCESS_TOKEN_TYPE_UNSUPPORTED")
        case .projectNotFound:
            error(404, "NOT_FOUND", "Project was not found.", [], reason: "NOT_FOUND")
        case .notFoundHTML: html(404)
        case .badGateway: html(502)
        case .gatewayTimeout: html(504)
        }
    }

    static func html(_ status: Int) -> Decision {
        Decision(
            status: status,
            reason: "html",
            contentType: "text/html; charset=UTF-8",
            body: Array(
                "<!DOCTYPE html><html><title>Error \(status)</title><p>[\(status)] That is an error.</html>".utf8
            )
        )
    }

    private static func invalidArgument(_ fault: FCMFault) -> Decision {
        let code = fcm("INVALID_ARGUMENT")
        let (message, details): (String, [String]) =
            switch fault {
            case .invalidToken: ("The registration token is not a valid FCM registration token", [code])
            case .invalidTokenField:
                ("Invalid registration token", [code, violation("message.token", "Invalid registration token")])
            case .invalidField:
                (
                    "Invalid value at 'message.android'",
                    [violation("message.android", "Invalid value at 'message.android'")]
                )
            case .tooBig: ("Android message is too big", [code])
            case .apnsUnregistered: ("APNs device token is disabled", [code, apns(410, "Unregistered")])
            case .unspecified: ("Unspecified error", [fcm("UNSPECIFIED_ERROR")])
            case .unknownCode: ("Something that is not in the list", [fcm("BRAND_NEW_ERROR")])
            default: ("Request contains an invalid argument.", [code])
            }
        let reason = fault == .unspecified ? "UNSPECIFIED_ERROR" : "INVALID_ARGUMENT"
        return error(400, "INVALID_ARGUMENT", message, details, reason: reason)
    }

    private static func quotaExceeded(_ fault: FCMFault) -> Decision {
        guard fault != .quotaPlain else {
            return error(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", [], reason: "RESOURCE_EXHAUSTED")
        }
        let subject = fault == .deviceQuota ? "device:message-rate" : "project:message-rate"
        let description = fault == .deviceQuota ? "Message rate of the device exceeded" : "Message rate exceeded"
        let failure = detail(
            "google.rpc.QuotaFailure",
            "\"violations\":[{\"subject\":\"\(subject)\",\"description\":\"\(description)\"}]"
        )
        return error(
            429,
            "RESOURCE_EXHAUSTED",
            description,
            [fcm("QUOTA_EXCEEDED"), failure],
            reason: "QUOTA_EXCEEDED"
        )
    }

    private static func error(
        _ code: Int,
        _ status: String,
        _ message: String,
        _ details: [String],
        reason: String
    ) -> Decision {
        let tail = details.isEmpty ? "" : ",\"details\":[\(details.joined(separator: ","))]"
        return Decision(
            status: code,
            reason: reason,
            contentType: "application/json; charset=UTF-8",
            body: Array(
                "{\"error\":{\"code\":\(code),\"message\":\(jsonQuoted(message)),\"status\":\"\(status)\"\(tail)}}\n"
                    .utf8
            )
        )
    }

    private static func detail(_ type: String, _ rest: String) -> String {
        "{\"@type\":\"\(typePrefix)\(type)\",\(rest)}"
    }

    private static func fcm(_ code: String) -> String {
        detail("google.firebase.fcm.v1.FcmError", "\"errorCode\":\"\(code)\"")
    }

    private static func apns(_ status: Int, _ reason: String) -> String {
        detail("google.firebase.fcm.v1.ApnsError", "\"statusCode\":\(status),\"reason\":\"\(reason)\"")
    }

    private static func violation(_ field: String, _ description: String) -> String {
        detail(
            "google.rpc.BadRequest",
            "\"fieldViolations\":[{\"field\":\"\(field)\",\"description\":\(jsonQuoted(description))}]"
        )
    }
}
