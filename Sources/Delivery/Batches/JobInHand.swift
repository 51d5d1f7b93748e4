import Postgres
import PushCore

/// What an app wants done about messages that may or may not have been taken.
enum DoubtPolicy: Sendable {
    case resend
    case unknown
}

/// A job of which batches are in hand: what its row says, and its content compiled for each route that was needed.
struct JobInHand: Sendable {
    let id: JobID
    let app: AppID
    let holdsOnCredentialFailure: Bool
    let doubt: DoubtPolicy
    let settings: MessageSettings
    /// The content, or why it cannot be read: then nothing of the job can be sent.
    let content: Result<Content, ContentError>
    var control: JobControl
    /// How many tokens may still be examined that its refusals put under suspicion; see `LaneWorker.examineToken`.
    var examinationsLeft = 20

    private var templates: [TemplateKey: NotificationTemplates] = [:]

    private struct TemplateKey: Hashable {
        let route: Route
        let topic: String
    }

    init(_ rows: PostgresRows, row: Int) throws(PostgresError) {
        id = JobID(try rows.uuid(row, 0))
        app = AppID(try rows.int32(row, 1))
        holdsOnCredentialFailure = try rows.text(row, 3) == "hold"
        control = JobControl(state: try rows.text(row, 4), isPaused: try rows.bool(row, 5))
        let kind = Content.Kind(rawValue: try rows.text(row, 6)) ?? .push
        content = Self.content(try rows.bytes(row, 7), kind: kind)
        let expiresAt = try rows.timestamp(row, 10)
        settings = MessageSettings(
            expiration: try rows.int32OrNil(row, 9) == 0
                ? .immediate : .at(epochSeconds: expiresAt.secondsSinceEpoch),
            collapseID: try rows.textOrNil(row, 8)
        )
        doubt = try rows.text(row, 11) == "unknown" ? .unknown : .resend
    }

    /// The content compiled for a credential's provider, once.
    mutating func templates(for credential: ProviderCredential, route: Route) -> NotificationTemplates? {
        guard case .success(let content) = content else { return nil }
        let provider: NotificationTemplates.Provider
        let topic: String
        switch credential.account {
        case .apns(_, _, let bundleID, _):
            topic = bundleID
            provider = .apns(bundleID: bundleID)
        case .fcm:
            topic = ""
            provider = .fcm(validateOnly: false)
        }
        let key = TemplateKey(route: route, topic: topic)
        if let known = templates[key] { return known }
        let made = NotificationTemplates(content, provider: provider, settings: settings)
        templates[key] = made
        return made
    }

    /// Whether the content says itself for which app it is, so that the app's credential is not to blame for that.
    func hasOwnTopic(on credential: ProviderCredential) -> Bool {
        guard case .success(let content) = content else { return false }
        return switch credential.account {
        case .apns: content.apns.hasOwnTopic
        case .fcm: FCMOverride.hasOwnTarget(content.fcm)
        }
    }

    private static func content(_ text: [UInt8], kind: Content.Kind) -> Result<Content, ContentError> {
        let value: JSONValue
        do {
            value = try JSONValue.parse(text)
        } catch {
            return .failure(ContentError(path: error.path, problem: error.problem))
        }
        do {
            return .success(try Content.parse(value, kind: kind))
        } catch {
            return .failure(error)
        }
    }
}

/// Whether a job may go on.
enum JobControl: Sendable, Equatable {
    case runs, paused, cancelled

    init(state: String, isPaused: Bool) {
        self = state == "cancelled" || state == "discarded" ? .cancelled : isPaused ? .paused : .runs
    }
}
