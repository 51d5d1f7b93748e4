import PushCore

/// A text, or one per language with a default. Languages are BCP 47 tags, compared without case.
package struct LocalizedText: Sendable, Equatable {
    /// The text for languages that are not listed.
    package let fallback: String
    /// Lower-case tag to text, in the order given.
    let translations: [(tag: String, text: String)]

    package static func == (left: LocalizedText, right: LocalizedText) -> Bool {
        left.fallback == right.fallback
            && left.translations.elementsEqual(right.translations) { $0.tag == $1.tag && $0.text == $1.text }
    }

    /// The text for a lower-case tag: the tag itself, then without its last part, and so on, then the default.
    func text(for tag: String) -> String {
        for candidate in LanguageTag.candidates(tag) {
            if let match = translations.first(where: { $0.tag == candidate }) { return match.text }
        }
        return fallback
    }

    /// Reads a text or an object of texts with a key `default`.
    static func parse(_ key: String, of reader: FieldReader) throws(ContentError) -> LocalizedText? {
        guard let value = reader.value(key) else { return nil }
        switch value {
        case .string(let text):
            guard !text.isEmpty else { throw reader.failure(key, "must not be empty") }
            return LocalizedText(fallback: text, translations: [])
        case .object(let object):
            return try parse(FieldReader(path: "\(reader.path).\(key)", object: object))
        default: throw reader.wrongType(key, "text or an object of texts by language", value)
        }
    }

    private static func parse(_ reader: FieldReader) throws(ContentError) -> LocalizedText {
        var fallback: String?
        var translations: [(tag: String, text: String)] = []
        for member in reader.object.members {
            guard case .string(let text) = member.value else {
                throw reader.wrongType(member.key, "text", member.value)
            }
            guard !text.isEmpty else { throw reader.failure(member.key, "must not be empty") }
            if member.key == "default" {
                fallback = text
                continue
            }
            guard LanguageTag.isValid(member.key) else {
                throw reader.failure(member.key, "is not a language tag such as en or pt-BR")
            }
            let tag = member.key.lowercased()
            guard tag != "default", !translations.contains(where: { $0.tag == tag }) else {
                throw reader.failure(member.key, "is given twice in different case")
            }
            translations.append((tag, text))
        }
        guard let fallback else { throw ContentError(path: reader.path, problem: "needs the key default") }
        return LocalizedText(fallback: fallback, translations: translations)
    }
}

/// BCP 47 tags, as far as looking texts up needs them.
enum LanguageTag {
    /// Two to eight letters, then parts of one to eight letters or digits, joined by hyphens.
    static func isValid(_ tag: String) -> Bool {
        let parts = tag.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard let language = parts.first, (2...8).contains(language.count), language.allSatisfy(isLetter) else {
            return false
        }
        return parts.dropFirst().allSatisfy { part in
            (1...8).contains(part.count) && part.allSatisfy { isLetter($0) || isDigit($0) }
        }
    }

    /// The tag, then without its last part, and so on.
    static func candidates(_ tag: String) -> [String] {
        var parts = tag.split(separator: "-")
        var candidates: [String] = []
        while !parts.isEmpty {
            candidates.append(parts.joined(separator: "-"))
            parts.removeLast()
        }
        return candidates
    }

    /// A device's locale as a lower-case tag: `pt_BR.UTF-8` becomes `pt-br`.
    static func normalize(locale: some Collection<UInt8>) -> String {
        var tag = ""
        for byte in locale.prefix(64) {
            if byte == UInt8(ascii: ".") || byte == UInt8(ascii: "@") { break }
            tag.unicodeScalars.append(byte == UInt8(ascii: "_") ? "-" : Unicode.Scalar(byte))
        }
        return tag.lowercased()
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
