import HTTP2
import Postgres
import PushCore

/// Turns the recipients of a batch into requests: bytes straight from the database's rows into the batch's arena.
struct RequestBuilder {
    /// What came of it.
    struct Result {
        /// Nil when there is nobody to send to.
        let requests: RequestBatch?
        /// The recipient of each request, as an index of the slice; ascending.
        let recipientOf: [Int32]
        /// Recipients that get no request, and why.
        let skipped: [Skip]
    }

    /// A recipient without a request.
    struct Skip: Equatable {
        let index: Int
        let reason: String
    }

    let job: JobID
    let route: Route
    let credential: ProviderCredential
    let templates: NotificationTemplates
    /// By this machine's clock.
    let deadline: WallClock.Instant
    let timeLimit: Duration

    /// Builds requests for the recipients whose bit is unset.
    func build(_ recipients: Recipients, done: Bitmap) throws -> Result {
        var state = try State(self, count: recipients.count)
        try done.forEachUnset { index in
            if let reason = try skipReason(recipients, index) {
                state.skipped.append(Skip(index: index, reason: reason))
                return
            }
            let language = try language(of: index, recipients, &state)
            let template = templates.all[language]
            if let fault = template.fault {
                state.skipped.append(Skip(index: index, reason: fault.reason))
                return
            }
            do {
                try add(index, recipients, template: language, to: &state)
                state.recipientOf.append(Int32(index))
            } catch is HTTP2Error {
                // Only a token that was written past the checks of register_device can do this.
                state.skipped.append(Skip(index: index, reason: "malformed_token"))
            }
        }
        return Result(
            requests: state.recipientOf.isEmpty ? nil : state.builder.finish(),
            recipientOf: state.recipientOf,
            skipped: state.skipped
        )
    }

    private struct State {
        var builder: RequestBatchBuilder
        var bodies: [Body?]
        var skipped: [Skip] = []
        var recipientOf: [Int32] = []
        var locales: [(bytes: [UInt8], language: Int)] = []
        let apnsPathPrefix = Array("/3/device/".utf8)
        var fcmPath: ByteRange = .none

        init(_ plan: RequestBuilder, count: Int) throws(HTTP2Error) {
            builder = RequestBatchBuilder(
                deadline: plan.deadline,
                timeLimit: plan.timeLimit,
                reserving: count,
                bytesEach: plan.route.isAPNs ? 120 : 200
            )
            bodies = Array(repeating: nil, count: plan.templates.all.count)
            recipientOf.reserveCapacity(count)
            // The fields do not differ by language.
            for field in plan.templates.all.first(where: { $0.fault == nil })?.headers ?? [] {
                try builder.addField(field.name, value: field.value)
            }
            switch plan.credential.account {
            case .apns:
                try builder.addOwnField("apns-id")
            case .fcm(let projectID, _, _, _, _):
                try builder.addField("content-type", value: "application/json")
                fcmPath = builder.store("/v1/projects/\(projectID)/messages:send")
            }
        }
    }

    // A template's shared bytes, stored once, and where the recipient's token goes.
    private enum Body {
        case shared(RequestBody)
        case pieces([Piece])
    }

    private enum Piece {
        case part(HTTP2.BodyPart)
        case token
    }

    private func skipReason(_ recipients: Recipients, _ index: Int) throws(PostgresError) -> String? {
        switch try recipients.standing(of: index, on: route) {
        case .reachable: nil
        case .gone: "unregistered"
        case .disabled: "disabled"
        case .withoutToken: "no_token"
        case .otherRoute: "route_changed"
        }
    }

    private func language(of index: Int, _ recipients: Recipients, _ state: inout State) throws(PostgresError) -> Int {
        guard templates.all.count > 1 else { return 0 }
        let known = state.locales
        let found = try recipients.withLocale(of: index) { locale -> (language: Int?, bytes: [UInt8]) in
            for candidate in known where candidate.bytes.count == locale.count {
                if locale.indices.allSatisfy({ locale[$0] == candidate.bytes[$0] }) { return (candidate.language, []) }
            }
            var bytes: [UInt8] = []
            for position in locale.indices { bytes.append(locale[position]) }
            return (nil, bytes)
        }
        guard let found else { return 0 }
        if let language = found.language { return language }
        let language = templates.index(forLocale: found.bytes)
        if state.locales.count < 256 { state.locales.append((found.bytes, language)) }
        return language
    }

    private func add(_ index: Int, _ recipients: Recipients, template: Int, to state: inout State) throws {
        let body = storedBody(template, &state)
        switch credential.account {
        case .apns:
            let prefix = state.apnsPathPrefix
            var failure: PostgresError?
            let path = state.builder.store { buffer in
                buffer.append(contentsOf: prefix)
                do throws(PostgresError) {
                    try recipients.appendToken(of: index, to: &buffer)
                } catch {
                    failure = error
                }
            }
            if let failure { throw failure }
            let message = MessageID.make(job: job, device: DeviceID(recipients.ids[index]))
            let id = state.builder.store { message.appendText(to: &$0) }
            guard case .shared(let body) = body else {
                preconditionFailure("an APNs body holds nothing of its recipient")
            }
            try state.builder.add(path: path, ownValues: id, body: body)
        case .fcm:
            guard case .pieces(let pieces) = body else {
                preconditionFailure("an FCM body holds its recipient's token")
            }
            let token = try storeJSONToken(index, recipients, &state)
            func part(_ position: Int) -> HTTP2.BodyPart? {
                guard position < pieces.count else { return nil }
                switch pieces[position] {
                case .part(let part): return part
                case .token: return .bytes(token)
                }
            }
            guard let first = part(0) else { preconditionFailure("an FCM body is never empty") }
            let whole = state.builder.makeBody(first, part(1), part(2), part(3), part(4))
            try state.builder.add(path: state.fcmPath, body: whole)
        }
    }

    private func storedBody(_ template: Int, _ state: inout State) -> Body {
        if let body = state.bodies[template] { return body }
        var pieces: [Piece] = []
        var hasToken = false
        for part in templates.all[template].body {
            switch part {
            case .shared(let bytes): pieces.append(.part(.bytes(state.builder.store(bytes))))
            case .secondsLeft: pieces.append(.part(.secondsLeft))
            case .token:
                hasToken = true
                pieces.append(.token)
            }
        }
        let body: Body
        if hasToken {
            precondition(pieces.count <= 5, "a body has at most five parts")
            body = .pieces(pieces)
        } else {
            precondition(pieces.count == 1, "a body without a token is one run of bytes")
            guard case .part(let part) = pieces[0] else { preconditionFailure("a body without a token holds none") }
            body = .shared(state.builder.makeBody(part))
        }
        state.bodies[template] = body
        return body
    }

    // Tokens are printable ASCII (register_device), so quotes and backslashes are all that JSON wants escaped.
    private func storeJSONToken(_ index: Int, _ recipients: Recipients, _ state: inout State) throws -> ByteRange {
        var failure: PostgresError?
        var isPlain = true
        let range = state.builder.store { buffer in
            let start = buffer.count
            do throws(PostgresError) {
                try recipients.appendToken(of: index, to: &buffer)
            } catch {
                failure = error
            }
            isPlain = buffer[start...].allSatisfy { $0 >= 0x20 && $0 != 0x22 && $0 != 0x5C }
        }
        if let failure { throw failure }
        if isPlain { return range }
        var writer = ByteWriter(capacity: 256)
        writer.append(jsonEscaping: try recipients.token(of: index))
        return state.builder.store(writer.bytes)
    }
}
