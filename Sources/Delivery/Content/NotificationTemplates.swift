import PushCore

/// A content compiled for one provider in all its languages: once per job and route.
package struct NotificationTemplates: Sendable {
    /// Where the requests go.
    package enum Provider: Sendable, Equatable {
        /// `bundleID`: the app's bundle identifier, without the suffix of a push type.
        case apns(bundleID: String)
        /// `validateOnly`: FCM checks everything and delivers nothing.
        case fcm(validateOnly: Bool)
    }

    /// The default language first, then one per tag.
    package let all: [NotificationTemplate]
    private let languages: [String]

    package init(_ content: Content, provider: Provider, settings: MessageSettings) {
        languages = content.languages
        all = ([""] + languages).map { language in
            // A call is not a notification: its messages have a form of their own.
            guard content.call == nil else { return .nothing }
            return switch provider {
            case .apns(let bundleID):
                APNsTemplate.make(content, language: language, bundleID: bundleID, settings: settings)
            case .fcm(let validateOnly):
                FCMTemplate.make(content, language: language, validateOnly: validateOnly, settings: settings)
            }
        }
    }

    /// Which of `all` a device gets. Takes `pt-BR`, `pt_BR` and `pt_BR.UTF-8`; allocates, so remember the answer per locale.
    package func index(forLocale locale: some Collection<UInt8>) -> Int {
        if languages.isEmpty || locale.isEmpty { return 0 }
        for candidate in LanguageTag.candidates(LanguageTag.normalize(locale: locale)) {
            if let position = languages.firstIndex(of: candidate) { return position + 1 }
        }
        return 0
    }
}
