package import PushCore

/// What a job says, in the one schema for all channels; `docs/content.md` is its reference. Valid by construction:
/// `Content.parse` is the only way to make one.
package struct Content: Sendable, Equatable {
    /// What a job is: an ordinary notification or a call.
    package enum Kind: String, Sendable {
        case push, call
    }

    /// How urgent the provider should take it.
    package enum Priority: String, Sendable, CaseIterable {
        case high, normal
    }

    /// How much an iOS notification may interrupt.
    package enum InterruptionLevel: String, Sendable, CaseIterable {
        case passive, active
        case timeSensitive = "time-sensitive"
        case critical
    }

    /// The number on the app's icon.
    package enum Badge: Sendable, Equatable {
        case set(Int)
        /// Left to the app: a provider knows no relative badge.
        case increase(Int)
    }

    /// What is played.
    package enum Sound: Sendable, Equatable {
        case named(String)
        /// An iOS critical alert, or one with a volume. Android plays the name.
        case detailed(name: String, critical: Bool, volume: JSONNumber?)
    }

    /// A button.
    package struct Action: Sendable, Equatable {
        package let id: String
        package let title: String
        package let url: String?
    }

    package let title: LocalizedText?
    package let subtitle: LocalizedText?
    package let body: LocalizedText?
    package let data: JSONObject
    package let url: String?
    package let image: String?
    package let icon: String?
    package let color: String?
    package let actions: [Action]
    package let badge: Badge?
    package let sound: Sound?
    package let category: String?
    package let threadID: String?
    package let androidChannel: String?
    package let priority: Priority?
    package let interruptionLevel: InterruptionLevel?
    package let relevance: JSONNumber?
    package let mutable: Bool?
    package let available: Bool
    /// Set for a job of kind `call` and only there.
    package let call: CallContent?
    package let apns: APNsOverride
    package let fcm: JSONObject
}

extension Content {
    /// Whether texts differ by language, so that a recipient's language has to be known.
    package var isLocalized: Bool { !languages.isEmpty }

    /// The lower-case tags of all translations, each once.
    var languages: [String] {
        var tags: [String] = []
        for text in [title, subtitle, body] {
            for (tag, _) in text?.translations ?? [] where !tags.contains(tag) {
                tags.append(tag)
            }
        }
        return tags
    }
}
