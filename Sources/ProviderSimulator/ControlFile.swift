import Glibc
import Synchronization

/// A script in a JSON file, read at start and again whenever the file changes.
///
/// At start a file that is wrong stops the simulator; later a fault is reported on standard error and the former
/// script stays.
final class ControlFile: Sendable {
    private struct Stamp: Equatable {
        var seconds = 0
        var nanoseconds = 0
        var size = 0
        var inode: UInt = 0
    }

    private struct State {
        var stamp = Stamp()
        var lookedAt: Int64 = 0
        /// By how much the file has moved the clock.
        var clockOffset: Int64 = 0
    }

    private let path: String
    private let state: Mutex<State>
    private let clock: SimulatorClock
    private let devices: DeviceRegistry
    private let atStart: [JSONValue.Member]
    private static let intervalMilliseconds: Int64 = 200

    init(
        path: String,
        control: SimulatorControl,
        clock: SimulatorClock,
        devices: DeviceRegistry
    ) throws(SimulatorError) {
        self.path = path
        self.clock = clock
        self.devices = devices
        state = Mutex(State(stamp: try Self.stamp(of: path)))
        let read = try Self.read(path)
        atStart = read.atStart
        apply(read, to: control)
    }

    /// The options with what the file that they name says for the whole run.
    static func options(_ asked: SimulatorOptions) throws(SimulatorError) -> SimulatorOptions {
        guard let path = asked.controlFile else { return asked }
        var options = asked
        try ControlReader(name: path).apply(try read(path).atStart, to: &options)
        return options
    }

    /// Looks at the file if the last look is long enough ago.
    func readAgainIfChanged(now: Int64, into control: SimulatorControl) {
        let isDue = state.withLock { state in
            guard now - state.lookedAt >= Self.intervalMilliseconds else { return false }
            state.lookedAt = now
            return true
        }
        guard isDue else { return }
        do throws(SimulatorError) {
            let stamp = try Self.stamp(of: path)
            let isNew = state.withLock { state in
                guard state.stamp != stamp else { return false }
                state.stamp = stamp
                return true
            }
            guard isNew else { return }
            let read = try Self.read(path)
            guard read.atStart == atStart else {
                throw ControlReader(name: path).fault("at_start has changed, which takes a new start of the simulator")
            }
            apply(read, to: control)
        } catch {
            reportFault(error)
        }
    }

    private func reportFault(_ error: SimulatorError) {
        let text = error.description + "; the former script stays\n"
        _ = unsafe text.withCString { unsafe write(STDERR_FILENO, $0, strlen($0)) }
    }

    private static func stamp(of path: String) throws(SimulatorError) -> Stamp {
        var info = stat()
        guard unsafe stat(path, &info) == 0 else { throw .system(.file, "looking at the control file \(path)") }
        return Stamp(
            seconds: info.st_mtim.tv_sec,
            nanoseconds: info.st_mtim.tv_nsec,
            size: info.st_size,
            inode: UInt(info.st_ino)
        )
    }

    private static func read(_ path: String) throws(SimulatorError) -> ControlReader.Result {
        try ControlReader(name: path).read(try SimulatorFiles.read(path))
    }

    private func apply(_ read: ControlReader.Result, to control: SimulatorControl) {
        let step = state.withLock { state in
            defer { state.clockOffset = read.clockOffsetSeconds }
            return read.clockOffsetSeconds - state.clockOffset
        }
        if step != 0 { clock.advance(by: .seconds(step)) }
        for device in read.devices { devices.set(device) }
        control.set { $0 = read.script }
        for pending in read.actions { control.perform(pending.action, on: pending.role) }
    }
}

/// Reads the JSON of a control file into a script. Every unknown key is an error that names it.
struct ControlReader {
    struct Result: Equatable {
        var script = SimulatorControl.Script()
        var actions: [SimulatorControl.PendingAction] = []
        var devices: [SimulatedDevice] = []
        var clockOffsetSeconds: Int64 = 0
        /// What holds for the whole run; looked through, and put into the options by `apply`.
        var atStart: [JSONValue.Member] = []
    }

    /// Where the text comes from, for messages.
    let name: String

    func read(_ bytes: [UInt8]) throws(SimulatorError) -> Result {
        let tree: JSONValue
        switch JSONText.parsed(bytes) {
        case .success(let value): tree = value
        case .failure(let place): throw fault("it is not JSON (at byte \(place.offset))")
        }
        guard let members = tree.members else { throw fault("it is not a JSON object") }
        var result = Result()
        for member in members {
            switch member.name {
            case "rules":
                for item in try array(member) { result.script.rules.append(try rule(item)) }
            case "latency_ms": result.script.latencyMilliseconds = try number(member)
            case "rate_limits":
                for limit in try object(member) {
                    result.script.rateLimits[try role(.string(limit.name))] = try rateLimit(limit)
                }
            case "fcm_quota": result.script.fcmQuota = try fcmQuota(member)
            case "reset_new_connections":
                for item in try array(member) { result.script.resetsNewConnections.insert(try role(item)) }
            case "ignore_new_connections":
                for item in try array(member) { result.script.ignoresNewConnections.insert(try role(item)) }
            case "handshake_faults":
                for item in try object(member) {
                    result.script.handshakeFaults[try role(.string(item.name))] = try handshakeFault(item)
                }
            case "oauth": result.script.oauth = try oauthFault(member)
            case "actions":
                for item in try array(member) { result.actions.append(try action(item)) }
            case "devices":
                for item in try array(member) { result.devices.append(try device(item)) }
            case "clock_offset_s": result.clockOffsetSeconds = try offset(member)
            case "at_start":
                result.atStart = try object(member)
                var looked = SimulatorOptions()
                try apply(result.atStart, to: &looked)
            default: throw unknown(member.name, in: "the top level")
            }
        }
        return result
    }

    // MARK: Parts

    private func rule(_ item: JSONValue) throws(SimulatorError) -> Rule {
        guard let members = item.members else { throw fault("each of rules must be an object") }
        var rule = Rule(.accept)
        var hasBehaviour = false
        for member in members {
            switch member.name {
            case "role": rule.role = try role(member.value)
            case "token": rule.tokenPrefix = try text(member)
            case "topic": rule.topic = try text(member)
            case "connection": rule.connection = try number(member)
            case "do":
                rule.behaviour = try behaviour(member.value)
                hasBehaviour = true
            case "delay_ms": rule.delayMilliseconds = try number(member)
            case "retry_after": rule.retryAfter = try retryAfter(member)
            case "per":
                guard let scope = Rule.Scope(rawValue: try text(member)) else {
                    throw fault("per is all, token or connection")
                }
                rule.scope = scope
            case "skip": rule.skip = try number(member)
            case "times": rule.times = try number(member)
            case "every": rule.every = max(1, try number(member))
            case "until_bearer_changes": rule.untilBearerChanges = member.value.bool ?? false
            default: throw unknown(member.name, in: "a rule")
            }
        }
        guard hasBehaviour else { throw fault("a rule has no \"do\"") }
        return rule
    }

    /// `"accept"`, or an object with one of the keys below.
    func behaviour(_ value: JSONValue) throws(SimulatorError) -> Behaviour {
        if let word = value.string { return try behaviour(word: word) }
        guard let members = value.members, let first = members.first else {
            throw fault("\"do\" is a word or an object")
        }
        switch first.name {
        case "reason":
            return .reject(
                reason: try text(first),
                status: value["status"]?.integer.map { Int($0) },
                timestamp: try timestamp(value)
            )
        case "fcm":
            guard let fault = FCMFault(rawValue: try text(first)) else {
                throw self.fault("unknown fcm error in \"do\"")
            }
            return .fault(fault)
        case "body":
            guard let body = AnswerBody(rawValue: try text(first)) else { throw fault("unknown body in \"do\"") }
            return .body(status: Int(value["status"]?.integer ?? 503), body)
        case "reset_stream": return .resetStream(code: UInt32(clamping: try number(first)))
        case "answer_then_reset": return .answerThenReset(code: UInt32(clamping: try number(first)))
        case "go_away": return .goAway(try goAway(first.value))
        case "settings": return .settings(maxConcurrentStreams: UInt32(clamping: try number(first)))
        case "initial_window": return .initialWindow(UInt32(clamping: try number(first)))
        default: throw unknown(first.name, in: "\"do\"")
        }
    }

    private func behaviour(word: String) throws(SimulatorError) -> Behaviour {
        switch word {
        case "accept": return .accept
        case "silence": return .silence
        case "refuse": return .refuseStream
        case "drop": return .drop(.reset)
        case "close": return .drop(.close)
        case "stop_reading": return .stopReading
        case "stop_answering": return .stopAnswering
        default: throw unknown(word, in: "\"do\"")
        }
    }

    private func timestamp(_ value: JSONValue) throws(SimulatorError) -> RejectionTimestamp {
        switch value["timestamp"] {
        case nil: return .none
        case .string("now")?: return .now
        case let stamp?:
            guard let milliseconds = stamp.integer else {
                throw fault("timestamp is \"now\" or UNIX milliseconds")
            }
            return .at(milliseconds)
        }
    }

    private func goAway(_ value: JSONValue) throws(SimulatorError) -> GoAway {
        guard let members = value.members else { throw fault("go_away is an object") }
        var plan = GoAway()
        for member in members {
            switch member.name {
            case "last":
                switch member.value {
                case .string("graceful"): plan.lastStream = .graceful
                case .string("newest"): plan.lastStream = .newest
                case .string("zero"): plan.lastStream = .zero
                default: plan.lastStream = .belowNewest(try number(member))
                }
            case "code": plan.errorCode = UInt32(clamping: try number(member))
            case "debug": plan.debugData = try text(member)
            case "grace_ms": plan.graceMilliseconds = try number(member)
            case "then":
                guard let then = GoAway.Then(rawValue: try text(member)) else {
                    throw fault("then is close-when-done, close-now, keep-open or refuse-new")
                }
                plan.then = then
            default: throw unknown(member.name, in: "go_away")
            }
        }
        return plan
    }

    private func rateLimit(_ member: JSONValue.Member) throws(SimulatorError) -> RateLimit {
        var limit = RateLimit(requests: 1)
        for part in try object(member) {
            switch part.name {
            case "requests": limit.requests = max(1, try number(part))
            case "window_ms": limit.windowMilliseconds = max(1, try number(part))
            case "retry_after": limit.retryAfter = try retryAfter(part)
            case "drop_after": limit.dropConnectionAfter = try number(part)
            default: throw unknown(part.name, in: "a rate limit")
            }
        }
        return limit
    }

    private func fcmQuota(_ member: JSONValue.Member) throws(SimulatorError) -> FCMQuota {
        var quota = FCMQuota()
        for part in try object(member) {
            switch part.name {
            case "project_per_minute": quota.projectPerMinute = max(1, try number(part))
            case "device_per_minute": quota.devicePerMinute = max(1, try number(part))
            case "device_per_hour": quota.devicePerHour = max(1, try number(part))
            default: throw unknown(part.name, in: "fcm_quota")
            }
        }
        return quota
    }

    private func handshakeFault(_ member: JSONValue.Member) throws(SimulatorError) -> HandshakeFault {
        guard let fault = HandshakeFault(rawValue: try text(member)) else {
            throw self.fault(
                "a handshake fault is one of " + HandshakeFault.allCases.map(\.rawValue).joined(separator: ", ")
            )
        }
        return fault
    }

    private func retryAfter(_ member: JSONValue.Member) throws(SimulatorError) -> RetryAfter {
        if let seconds = member.value.integer { return .seconds(seconds) }
        if let text = member.value.string { return .text(text) }
        guard let seconds = member.value["date_in_seconds"]?.integer else {
            throw fault("retry_after is seconds, a text, or {\"date_in_seconds\": n}")
        }
        return .dateInSeconds(seconds)
    }

    private func oauthFault(_ member: JSONValue.Member) throws(SimulatorError) -> OAuthFault {
        if member.value.string == "silence" { return .silence }
        if member.value.string == "id_token_only" { return .idTokenOnly }
        if let status = member.value["status"]?.integer { return .status(Int(status)) }
        guard let error = member.value["error"]?.string else {
            throw fault("oauth is \"silence\", \"id_token_only\", {\"status\": n} or {\"error\": …}")
        }
        return .error(error, description: member.value["description"]?.string ?? "")
    }

    private func action(_ item: JSONValue) throws(SimulatorError) -> SimulatorControl.PendingAction {
        guard let what = item["do"] else { throw fault("an action has no \"do\"") }
        let target: ProviderRole? = if let value = item["role"] { try role(value) } else { nil }
        let action: SimulatorControl.Action
        switch try behaviour(what) {
        case .goAway(let plan): action = .goAway(plan)
        case .settings(let streams): action = .settings(maxConcurrentStreams: streams)
        case .initialWindow(let bytes): action = .initialWindow(bytes)
        case .drop(let cut): action = .drop(cut)
        case .stopReading: action = .stopReading
        case .stopAnswering: action = .stopAnswering
        default: throw fault("this \"do\" is for requests, not for connections")
        }
        return SimulatorControl.PendingAction(action: action, role: target)
    }

    // MARK: Values

    func role(_ value: JSONValue) throws(SimulatorError) -> ProviderRole {
        guard let text = value.string, let role = ProviderRole(rawValue: text) else {
            throw fault("a role is one of " + ProviderRole.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return role
    }

    func number(_ member: JSONValue.Member) throws(SimulatorError) -> Int {
        guard let value = member.value.integer, (0...4_294_967_295).contains(value) else {
            throw fault("\(member.name) must be a whole number from 0 up")
        }
        return Int(value)
    }

    func text(_ member: JSONValue.Member) throws(SimulatorError) -> String {
        guard let text = member.value.string else { throw fault("\(member.name) must be a text") }
        return text
    }

    private func array(_ member: JSONValue.Member) throws(SimulatorError) -> [JSONValue] {
        guard let items = member.value.array else { throw fault("\(member.name) must be an array") }
        return items
    }

    func object(_ member: JSONValue.Member) throws(SimulatorError) -> [JSONValue.Member] {
        guard let members = member.value.members else { throw fault("\(member.name) must be an object") }
        return members
    }

    func unknown(_ key: String, in place: String) -> SimulatorError {
        fault("unknown key \"\(key)\" in \(place)")
    }

    func fault(_ text: String) -> SimulatorError {
        SimulatorError(code: .control, context: "control file \(name): \(text)")
    }
}
