/// What the simulator does with a request that passed its checks.
///
/// The same words are used by token words, by rules set in process and by the control file.
package enum Behaviour: Sendable, Hashable {
    /// The provider takes the message: 200.
    case accept
    /// An APNs rejection. The status is looked up from the reason when nil (400 if the reason is unknown).
    /// The time stamp (UNIX milliseconds) is sent with 410 only; nil sends none.
    case reject(reason: String, status: Int? = nil, timestamp: RejectionTimestamp = .none)
    /// An FCM error answer.
    case fault(FCMFault)
    /// An answer whose body is not what a client hopes for.
    case body(status: Int, AnswerBody)
    /// The request is read and never answered.
    case silence
    /// RST_STREAM with REFUSED_STREAM: surely not processed.
    case refuseStream
    /// RST_STREAM with the given HTTP/2 error code, without an answer.
    case resetStream(code: UInt32)
    /// Response headers that promise a body, then RST_STREAM with the code.
    case answerThenReset(code: UInt32)
    /// A GOAWAY on this connection; the request is answered if the GOAWAY does not exclude it.
    case goAway(GoAway)
    /// Announces another MAX_CONCURRENT_STREAMS on this connection, then accepts.
    case settings(maxConcurrentStreams: UInt32)
    /// Announces another INITIAL_WINDOW_SIZE on this connection, at most 2^31-1, then accepts. 0 lets no body through.
    case initialWindow(UInt32)
    /// Cuts the connection without an answer.
    case drop(ConnectionCut)
    /// Stops reading and writing on the connection but leaves the socket open: no answer, no PING ack.
    case stopReading
    /// From now on nothing on this connection is answered; reading and PING acks go on.
    case stopAnswering
}

/// How the `timestamp` of a 410 is made.
package enum RejectionTimestamp: Sendable, Hashable {
    case none
    /// The simulator's clock.
    case now
    /// That long before the simulator's clock.
    case secondsAgo(Int64)
    /// UNIX milliseconds.
    case at(Int64)
}

/// How a connection is cut.
package enum ConnectionCut: String, Sendable, Hashable {
    /// TCP reset.
    case reset
    /// TLS close notification, then FIN.
    case close
}

/// What is wrong with the TLS handshakes of a role.
package enum HandshakeFault: String, Sendable, Hashable, CaseIterable {
    /// The alert `no_application_protocol`.
    case refusedALPN = "refused-alpn"
    /// TLS comes about without a protocol chosen, as with a server that speaks HTTP/1.1 only.
    case noALPN = "no-alpn"
    /// The certificate's time was over yesterday.
    case expiredCertificate = "expired-certificate"
    /// The certificate is for another host.
    case otherHost = "other-host"
    /// A client certificate is demanded: the alert comes when the client thinks that the handshake is over.
    case clientCertificate = "client-certificate"
}

/// What a GOAWAY says and what follows it.
package struct GoAway: Sendable, Hashable {
    /// The last stream id in the frame.
    package enum LastStream: Sendable, Hashable {
        /// 2^31-1 first, and after `graceMilliseconds` the id of the newest stream.
        case graceful
        /// The newest stream, so everything open may still be answered.
        case newest
        /// That many client streams below the newest: those above are surely not processed.
        case belowNewest(Int)
        /// 0: nothing was processed.
        case zero
    }

    /// What happens after the frame.
    package enum Then: String, Sendable, Hashable {
        /// Close when the last open stream is answered.
        case closeWhenDone = "close-when-done"
        /// Close at once, open streams stay without an answer.
        case closeNow = "close-now"
        /// Leave the socket open for ever; streams above the id are ignored.
        case keepOpen = "keep-open"
        /// Leave the socket open and answer every later stream with REFUSED_STREAM (only after `graceful`'s first step).
        case refuseNew = "refuse-new"
    }

    package var lastStream: LastStream
    /// HTTP/2 error code; 0 is NO_ERROR.
    package var errorCode: UInt32
    /// Debug data, for example `{"reason":"Shutdown"}`.
    package var debugData: String
    package var then: Then
    /// Time between the two steps of `graceful`.
    package var graceMilliseconds: Int

    package init(
        lastStream: LastStream = .newest,
        errorCode: UInt32 = 0,
        debugData: String = "",
        then: Then = .closeWhenDone,
        graceMilliseconds: Int = 50
    ) {
        self.lastStream = lastStream
        self.errorCode = errorCode
        self.debugData = debugData
        self.then = then
        self.graceMilliseconds = graceMilliseconds
    }
}

/// Bodies that break naive parsers.
package enum AnswerBody: String, Sendable, Hashable, CaseIterable {
    case html
    case empty
    case truncatedJSON = "truncated-json"
    case notJSON = "not-json"
    case oneMegabyte = "one-megabyte"
    case unknownReason = "unknown-reason"
    case extraKeys = "extra-keys"
    case jsonArray = "json-array"
    case textTimestamp = "text-timestamp"
}

/// The `retry-after` header of an answer.
package enum RetryAfter: Sendable, Hashable {
    case seconds(Int64)
    /// An HTTP date that many seconds from the simulator's clock; negative gives a date in the past.
    case dateInSeconds(Int64)
    /// Any text, for values that are not valid.
    case text(String)
}

/// The error answers of FCM.
package enum FCMFault: String, Sendable, Hashable, CaseIterable {
    /// 404 NOT_FOUND, FcmError UNREGISTERED.
    case unregistered
    /// 400 INVALID_ARGUMENT about the registration token, with FcmError and the provider's text.
    case invalidToken = "invalid-token"
    /// 400 INVALID_ARGUMENT with BadRequest on `message.token`.
    case invalidTokenField = "invalid-token-field"
    /// 400 INVALID_ARGUMENT with BadRequest on another field (`message.android`).
    case invalidField = "invalid-field"
    /// 400 INVALID_ARGUMENT with FcmError and a generic text only.
    case invalidGeneric = "invalid-generic"
    /// 400 INVALID_ARGUMENT: the message is too big.
    case tooBig = "too-big"
    /// 403 PERMISSION_DENIED, FcmError SENDER_ID_MISMATCH.
    case senderMismatch = "sender-mismatch"
    /// 403 PERMISSION_DENIED without FcmError.
    case permissionDenied = "permission-denied"
    /// 429 RESOURCE_EXHAUSTED, FcmError QUOTA_EXCEEDED, QuotaFailure of the project.
    case quota
    /// 429 RESOURCE_EXHAUSTED, FcmError QUOTA_EXCEEDED, QuotaFailure of the device.
    case deviceQuota = "device-quota"
    /// 429 RESOURCE_EXHAUSTED without FcmError.
    case quotaPlain = "quota-plain"
    /// 503 UNAVAILABLE.
    case unavailable
    /// 500 INTERNAL.
    case `internal`
    /// 401 UNAUTHENTICATED, FcmError THIRD_PARTY_AUTH_ERROR, ApnsError 403.
    case thirdPartyAuth = "third-party-auth"
    /// 401 UNAUTHENTICATED, FcmError APNS_AUTH_ERROR.
    case apnsAuth = "apns-auth"
    /// 400 INVALID_ARGUMENT with ApnsError 410 Unregistered.
    case apnsUnregistered = "apns-unregistered"
    /// 401 UNAUTHENTICATED with ErrorInfo ACCESS_TOKEN_EXPIRED.
    case accessTokenExpired = "access-token-expired"
    /// 401 UNAUTHENTICATED with ErrorInfo ACCESS_TOKEN_TYPE_UNSUPPORTED and no FcmError.
    case accessTokenInvalid = "access-token-invalid"
    /// 404 with an HTML page: wrong URL.
    case notFoundHTML = "not-found-html"
    /// 404 NOT_FOUND without FcmError: wrong project.
    case projectNotFound = "project-not-found"
    /// 400 with FcmError UNSPECIFIED_ERROR.
    case unspecified
    /// 502 with an HTML page.
    case badGateway = "bad-gateway"
    /// 504 with an HTML page.
    case gatewayTimeout = "gateway-timeout"
    /// 400 with an errorCode that nobody knows.
    case unknownCode = "unknown-code"
}
