import PushCore

/// A piece of a request body.
package enum TemplatePart: Sendable, Equatable {
    /// Bytes that are the same for every recipient.
    case shared([UInt8])
    /// The whole seconds until the expiry, in decimal digits, at most `FCMTemplate.longestSeconds`.
    case secondsLeft
    /// The recipient's token, escaped for JSON (`ByteWriter.append(jsonEscaping:)`).
    case token
}

/// A header that is the same for every recipient. Values are printable ASCII.
package struct HeaderField: Sendable, Equatable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// Why no request can be made of a content for one provider and language. The device is not the cause.
package enum PayloadFault: Sendable, Equatable, CustomStringConvertible {
    case tooLarge(payloadBytes: Int, limit: Int)
    /// The content has nothing that this provider can carry, such as a sound alone for FCM.
    case nothingToSend

    /// The reason that stands in result rows.
    package var reason: String {
        switch self {
        case .tooLarge: "payload_too_large"
        case .nothingToSend: "nothing_for_channel"
        }
    }

    package var description: String {
        switch self {
        case .tooLarge(let payloadBytes, let limit): "the payload would be \(payloadBytes) bytes, the limit is \(limit)"
        case .nothingToSend: "the content has nothing for this channel"
        }
    }
}

/// What a job says beside its content, as far as requests show it.
package struct MessageSettings: Sendable, Equatable {
    /// How long the provider keeps trying.
    package enum Expiration: Sendable, Equatable {
        /// One try now; nothing is stored (a ttl of 0).
        case immediate
        /// Until a moment, in seconds since 1970.
        case at(epochSeconds: Int64)
    }

    package let expiration: Expiration
    /// Checked by `CollapseID.problem`.
    package let collapseID: String?

    package init(expiration: Expiration, collapseID: String? = nil) {
        self.expiration = expiration
        self.collapseID = collapseID
    }
}

/// A content compiled for one provider and one language: what all recipients share, and where the rest goes.
///
/// Path, authorization, `apns-id` and content type are the caller's. With a `fault` no request is to be made.
package struct NotificationTemplate: Sendable, Equatable {
    package let headers: [HeaderField]
    package let body: [TemplatePart]
    /// The size that the provider's limit is about.
    package let payloadBytes: Int
    package let fault: PayloadFault?

    init(headers: [HeaderField], body: [TemplatePart], payloadBytes: Int, limit: Int) {
        self.headers = headers
        self.body = body
        self.payloadBytes = payloadBytes
        fault = payloadBytes > limit ? .tooLarge(payloadBytes: payloadBytes, limit: limit) : nil
    }

    private init(fault: PayloadFault) {
        headers = []
        body = []
        payloadBytes = 0
        self.fault = fault
    }

    /// The template of a content that has nothing for a provider.
    static let nothing = NotificationTemplate(fault: .nothingToSend)

    /// The body for one recipient, as bytes. The delivery path copies the parts itself; this is for tests and previews.
    package func renderBody(token: some Sequence<UInt8>, secondsLeft: Int64) -> [UInt8] {
        var writer = ByteWriter(capacity: payloadBytes + 256)
        for part in body {
            switch part {
            case .shared(let bytes): writer.append(contentsOf: bytes)
            case .secondsLeft: writer.append(decimal: min(max(0, secondsLeft), FCMTemplate.longestSeconds))
            case .token: writer.append(jsonEscaping: token)
            }
        }
        return writer.bytes
    }
}
