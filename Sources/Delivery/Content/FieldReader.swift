import PushCore

/// Reads the fields of one JSON object by name. Null counts as absent; a wrong type is refused by its path.
struct FieldReader {
    let path: String
    let object: JSONObject

    /// Refuses a key that is not in `known`, with the nearest known key as a hint.
    func refuseUnknownKeys(known: [String]) throws(ContentError) {
        for member in object.members where !known.contains(member.key) {
            let hint = NearestKey.find(member.key, among: known).map { " (did you mean \($0)?)" } ?? ""
            throw failure(member.key, "is not known\(hint)")
        }
    }

    /// The value of a key; nil where it is absent or null.
    func value(_ key: String) -> JSONValue? {
        guard let value = object[key], value != .null else { return nil }
        return value
    }

    /// A text, which must not be empty.
    func text(_ key: String) throws(ContentError) -> String? {
        guard let value = value(key) else { return nil }
        guard case .string(let text) = value else { throw wrongType(key, "text", value) }
        guard !text.isEmpty else { throw failure(key, "must not be empty") }
        return text
    }

    /// One of a few words.
    func word<Word: RawRepresentable & CaseIterable>(
        _ key: String,
        as type: Word.Type
    ) throws(ContentError) -> Word? where Word.RawValue == String {
        guard let text = try text(key) else { return nil }
        guard let word = Word(rawValue: text) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw failure(key, "must be one of \(words)")
        }
        return word
    }

    func boolean(_ key: String) throws(ContentError) -> Bool? {
        guard let value = value(key) else { return nil }
        guard case .bool(let flag) = value else { throw wrongType(key, "true or false", value) }
        return flag
    }

    /// A whole number spelt without fraction or exponent.
    func wholeNumber(_ key: String, in range: ClosedRange<Int>) throws(ContentError) -> Int? {
        guard let value = value(key) else { return nil }
        return try Self.wholeNumber(value, path: "\(path).\(key)", in: range)
    }

    static func wholeNumber(
        _ value: JSONValue,
        path: String,
        in range: ClosedRange<Int>
    ) throws(ContentError) -> Int {
        guard case .number(let number) = value else {
            throw ContentError(path: path, problem: "must be a whole number, found \(value.kindName)")
        }
        guard let whole = number.wholeNumber, range.contains(whole) else {
            throw ContentError(
                path: path,
                problem: "must be a whole number from \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return whole
    }

    /// A number from 0 to 1, as it was spelt.
    func share(_ key: String) throws(ContentError) -> JSONNumber? {
        guard let value = value(key) else { return nil }
        guard case .number(let number) = value else { throw wrongType(key, "a number", value) }
        guard (0...1).contains(number.double) else { throw failure(key, "must be a number from 0 to 1") }
        return number
    }

    func object(_ key: String) throws(ContentError) -> FieldReader? {
        guard let value = value(key) else { return nil }
        guard case .object(let object) = value else { throw wrongType(key, "an object", value) }
        return FieldReader(path: "\(path).\(key)", object: object)
    }

    func wrongType(_ key: String, _ expected: String, _ found: JSONValue) -> ContentError {
        failure(key, "must be \(expected), found \(found.kindName)")
    }

    func failure(_ key: String, _ problem: String) -> ContentError {
        ContentError(path: "\(path).\(key)", problem: problem)
    }
}

/// Finds the known key that a misspelt one was probably meant to be.
enum NearestKey {
    /// The first known key within two edits, or within one for keys of up to three letters; nil where none is near.
    static func find(_ key: String, among known: [String]) -> String? {
        let limit = key.unicodeScalars.count <= 3 ? 1 : 2
        let ranked = known.map { (key: $0, edits: edits(Array(key.unicodeScalars), Array($0.unicodeScalars))) }
        guard let best = ranked.map(\.edits).min(), best <= limit else { return nil }
        return ranked.first { $0.edits == best }?.key
    }

    // Levenshtein's distance.
    private static func edits(_ left: [Unicode.Scalar], _ right: [Unicode.Scalar]) -> Int {
        guard abs(left.count - right.count) <= 2 else { return 3 }
        var previous = Array(0...right.count)
        for (row, letter) in left.enumerated() {
            var current = [row + 1]
            for column in right.indices {
                let substitution = previous[column] + (letter == right[column] ? 0 : 1)
                current.append(min(substitution, previous[column + 1] + 1, current[column] + 1))
            }
            previous = current
        }
        return previous[right.count]
    }
}
