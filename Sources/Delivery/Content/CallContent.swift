import PushCore

/// The call that a job of kind `call` is about.
package struct CallContent: Sendable, Equatable {
    /// What happened to the call.
    package enum Event: String, Sendable, CaseIterable {
        case incoming, ended
    }

    /// Why it ended.
    package enum EndReason: String, Sendable, CaseIterable {
        case answeredElsewhere = "answered_elsewhere"
        case declinedElsewhere = "declined_elsewhere"
        case cancelled
        case timeout
    }

    package let event: Event
    /// Names the call on server and devices, at most 64 bytes. Nil for an incoming call that has yet to get its UUID.
    package let callID: String?
    package let caller: String?
    package let handle: String?
    package let avatar: String?
    package let video: Bool
    /// How long it rings, in seconds.
    package let timeout: Int?
    /// Only for `ended`.
    package let reason: EndReason?

    static let knownKeys = ["event", "call_id", "caller", "handle", "avatar", "video", "timeout", "reason"]

    static func parse(_ reader: FieldReader) throws(ContentError) -> CallContent {
        try reader.refuseUnknownKeys(known: knownKeys)
        guard let event = try reader.word("event", as: Event.self) else {
            throw reader.failure("event", "is missing")
        }
        let callID = try parseCallID(reader)
        if event == .ended, callID == nil {
            throw reader.failure("call_id", "is missing: it says which call has ended")
        }
        let reason = try reader.word("reason", as: EndReason.self)
        if event == .incoming, reason != nil {
            throw reader.failure("reason", "is only for a call that has ended")
        }
        return CallContent(
            event: event,
            callID: callID,
            caller: try reader.text("caller"),
            handle: try reader.text("handle"),
            avatar: try reader.text("avatar"),
            video: try reader.boolean("video") ?? false,
            timeout: try reader.wholeNumber("timeout", in: 1...600),
            reason: reason
        )
    }

    /// An empty call id counts as absent: an incoming call then gets a new one.
    private static func parseCallID(_ reader: FieldReader) throws(ContentError) -> String? {
        guard let value = reader.value("call_id"), value != .string("") else { return nil }
        guard case .string(let callID) = value else { throw reader.wrongType("call_id", "text", value) }
        if let problem = CollapseID.problem(callID) { throw reader.failure("call_id", problem) }
        return callID
    }
}
