/// One line of scripted behaviour: which requests it matches, how often it acts, and what it does.
///
/// Rules are looked at in order; the first that matches and has its turn decides. Token words come after rules.
package struct Rule: Sendable, Hashable {
    /// What a rule counts its turns by.
    package enum Scope: String, Sendable, Hashable {
        case all
        case token
        case connection
    }

    /// Nil matches every role but `oauth`.
    package var role: ProviderRole?
    /// Nil matches every token; else the token begins with this text (compared without case for APNs).
    package var tokenPrefix: String?
    /// Nil matches every topic (APNs only).
    package var topic: String?
    /// Nil matches every connection; else the one with this number (from 1, in order of acceptance).
    package var connection: Int?
    package var behaviour: Behaviour
    /// Wait before acting.
    package var delayMilliseconds: Int
    /// Adds a `retry-after` header to the answer.
    package var retryAfter: RetryAfter?
    /// What `skip`, `times` and `every` count by.
    package var scope: Scope
    /// Lets that many matching requests pass first.
    package var skip: Int
    /// Acts at most that many times; nil is for ever.
    package var times: Int?
    /// Acts on each n-th matching request after `skip`; 1 is each.
    package var every: Int
    /// Acts only as long as the bearer token is the one that the rule saw first.
    package var untilBearerChanges: Bool

    package init(
        _ behaviour: Behaviour,
        role: ProviderRole? = nil,
        tokenPrefix: String? = nil,
        topic: String? = nil,
        connection: Int? = nil,
        delayMilliseconds: Int = 0,
        retryAfter: RetryAfter? = nil,
        scope: Scope = .all,
        skip: Int = 0,
        times: Int? = nil,
        every: Int = 1,
        untilBearerChanges: Bool = false
    ) {
        precondition(skip >= 0 && every >= 1 && delayMilliseconds >= 0, "a rule's numbers are not negative")
        self.behaviour = behaviour
        self.role = role
        self.tokenPrefix = tokenPrefix
        self.topic = topic
        self.connection = connection
        self.delayMilliseconds = delayMilliseconds
        self.retryAfter = retryAfter
        self.scope = scope
        self.skip = skip
        self.times = times
        self.every = every
        self.untilBearerChanges = untilBearerChanges
    }
}

/// A limit over all requests of a role; what is over it is answered 429.
package struct RateLimit: Sendable, Hashable {
    /// Requests let through per window.
    package var requests: Int
    package var windowMilliseconds: Int
    /// Sent with each 429; nil sends none.
    package var retryAfter: RetryAfter?
    /// After that many refused requests in a row of windows the connection is reset; nil never.
    package var dropConnectionAfter: Int?

    package init(
        requests: Int,
        windowMilliseconds: Int = 1000,
        retryAfter: RetryAfter? = nil,
        dropConnectionAfter: Int? = nil
    ) {
        precondition(requests > 0 && windowMilliseconds > 0, "a rate limit lets something through")
        self.requests = requests
        self.windowMilliseconds = windowMilliseconds
        self.retryAfter = retryAfter
        self.dropConnectionAfter = dropConnectionAfter
    }
}
