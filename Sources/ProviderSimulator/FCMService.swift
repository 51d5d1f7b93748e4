/// The send endpoint of FCM HTTP v1: bearer, project, fields, size.
struct FCMService {
    /// What was found in a request, for the ledger and the rules.
    struct Findings {
        var token = ""
        /// Whether the token is that of a device, not a topic or condition.
        var isDevice = false
        var priority: String?
        var expiration: String?
        var collapseID: String?
        var isValidateOnly = false
        var isNotification = false
        var projectID = ""
    }

    let options: FCMOptions

    /// The project of a path `/v1/projects/P/messages:send`; nil for any other path.
    static func project(ofPath path: String) -> String? {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 5, parts[0].isEmpty, parts[1] == "v1", parts[2] == "projects", !parts[3].isEmpty,
            parts[4] == "messages:send"
        else { return nil }
        return String(parts[3])
    }

    /// The refusal of a request, or nil. `findings` is filled as far as the request could be read.
    func fault(slot: StreamSlot, tokens: AccessTokens, now: Int64, findings: inout Findings) -> Decision? {
        guard slot.equals(.method, "POST") else { return FCMAnswers.html(405) }
        guard let project = Self.project(ofPath: slot.text(.path) ?? "") else { return FCMAnswers.html(404) }
        findings.projectID = project
        let tree = JSONText.parse(slot.body)
        if let tree { Self.read(tree, into: &findings) }
        guard let bearer = slot.bytes(.authorization).flatMap(ProviderTokenVerifier.token(of:)) else {
            return FCMAnswers.unauthenticated("CREDENTIALS_MISSING")
        }
        switch tokens.state(of: String(decoding: bearer, as: UTF8.self), now: now) {
        case .unknown: return FCMAnswers.fault(.accessTokenInvalid)
        case .expired: return FCMAnswers.fault(.accessTokenExpired)
        case .valid(let owner, _) where owner == project: break
        case .valid(_, let known) where !known.contains(project): return FCMAnswers.fault(.projectNotFound)
        case .valid: return FCMAnswers.fault(.permissionDenied)
        }
        guard let tree, tree.members != nil else {
            return FCMAnswers.badRequest([], message: "Invalid JSON payload received.")
        }
        return fault(in: tree)
    }

    private func fault(in tree: JSONValue) -> Decision? {
        var checker = FCMFieldChecker()
        checker.check(tree, as: .message(FCMKind.request), at: "")
        var violations = checker.violations
        let message = tree["message"]
        if message?.members == nil {
            violations.append(FCMViolation(field: "message", description: "The message is not set."))
        } else if let message {
            let targets = ["token", "fid", "topic", "condition"].filter { message[$0]?.string?.isEmpty == false }
            if targets.count != 1 {
                violations.append(
                    FCMViolation(
                        field: "message",
                        description: "Recipient of the message is not set, or more than one is."
                    )
                )
            }
        }
        if let first = violations.first {
            return FCMAnswers.badRequest(violations.map { ($0.field, $0.description) }, message: first.description)
        }
        if let message, Self.size(of: message) > options.maximumMessageBytes { return FCMAnswers.fault(.tooBig) }
        return nil
    }

    /// Bytes of keys and values of the data and of the notification, as Android would get them.
    static func size(of message: JSONValue) -> Int {
        let android = message["android"]
        let data = android?["data"] ?? message["data"]
        return [data, message["notification"], android?["notification"]].reduce(0) { $0 + weight($1) }
    }

    private static func weight(_ value: JSONValue?) -> Int {
        switch value {
        case .string(let text), .number(let text): text.utf8.count
        case .array(let items): items.reduce(0) { $0 + weight($1) }
        case .object(let members): members.reduce(0) { $0 + $1.name.utf8.count + weight($1.value) }
        case .bool, .null, nil: 0
        }
    }

    /// Reads a body without judging it.
    static func read(_ body: [UInt8], into findings: inout Findings) {
        if let tree = JSONText.parse(body) { read(tree, into: &findings) }
    }

    private static func read(_ tree: JSONValue, into findings: inout Findings) {
        findings.isValidateOnly = (tree["validate_only"] ?? tree["validateOnly"])?.bool ?? false
        guard let message = tree["message"] else { return }
        if let token = (message["token"] ?? message["fid"])?.string {
            findings.token = token
            findings.isDevice = true
        } else if let topic = message["topic"]?.string {
            findings.token = "/topics/" + topic
        } else if let condition = message["condition"]?.string {
            findings.token = condition
        }
        let android = message["android"]
        findings.isNotification = (message["notification"] ?? android?["notification"]) != nil
        findings.priority = android?["priority"]?.string
        findings.expiration = android?["ttl"]?.string
        findings.collapseID = (android?["collapse_key"] ?? android?["collapseKey"])?.string
    }
}

/// The access tokens that the token endpoint gave out.
struct AccessTokens {
    private struct Entry {
        let projectID: String
        let expiresAt: Int64
    }

    enum State {
        case unknown
        case expired
        /// Good for one project; and the projects that exist.
        case valid(project: String, known: Set<String>)
    }

    private static let maximumCount = 10_000
    private var entries: [String: Entry] = [:]
    var projects: Set<String> = []

    func state(of token: String, now: Int64) -> State {
        guard let entry = entries[token] else { return .unknown }
        return entry.expiresAt > now ? .valid(project: entry.projectID, known: projects) : .expired
    }

    mutating func add(_ token: String, projectID: String, expiresAt: Int64, now: Int64) {
        if entries.count >= Self.maximumCount { entries = entries.filter { $0.value.expiresAt > now } }
        if entries.count >= Self.maximumCount { entries.removeAll() }
        entries[token] = Entry(projectID: projectID, expiresAt: expiresAt)
    }

    /// Makes every token that was given out expire now.
    mutating func expireAll() {
        entries = entries.mapValues { Entry(projectID: $0.projectID, expiresAt: 0) }
    }
}
