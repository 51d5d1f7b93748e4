/// A JSON document as values. Numbers keep their spelling and objects keep their order, so that what came in can go out unchanged.
package enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    /// What errors call this kind of value: `text`, `number`, `object`, `array`, `boolean` or `null`.
    package var kindName: String {
        switch self {
        case .null: "null"
        case .bool: "boolean"
        case .number: "number"
        case .string: "text"
        case .array: "array"
        case .object: "object"
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    package init(stringLiteral value: String) { self = .string(value) }
    package init(integerLiteral value: Int) { self = .number(JSONNumber(value)) }
}

/// A JSON number as it was spelt: `1`, `1.0` and `100000000000000000000` stay what they are.
package struct JSONNumber: Sendable, Equatable {
    /// The number's text, valid by RFC 8259.
    package let lexeme: String

    /// Takes a text that the parser found to be a number.
    init(lexeme: String) {
        self.lexeme = lexeme
    }

    /// Spells a whole number.
    package init(_ value: Int) {
        lexeme = String(value)
    }

    /// The value where it is spelt as a whole number (no fraction, no exponent) and fits into 64 bits; nil otherwise.
    package var wholeNumber: Int? { Int(lexeme) }

    /// The nearest double.
    package var double: Double { Double(lexeme) ?? .infinity }
}

/// The members of a JSON object, in order. Lookup is linear: these objects are small.
package struct JSONObject: Sendable, Equatable {
    /// One key with its value.
    package struct Member: Sendable, Equatable {
        package var key: String
        package var value: JSONValue

        package init(key: String, value: JSONValue) {
            self.key = key
            self.value = value
        }
    }

    /// The members, in the order in which they are written.
    package private(set) var members: [Member]

    /// Takes members whose keys are distinct.
    package init(members: [Member] = []) {
        self.members = members
    }

    /// Whether there is no member.
    package var isEmpty: Bool { members.isEmpty }

    /// The value of a key. Setting it keeps the place of a known key and appends a new one; setting nil removes it.
    package subscript(key: String) -> JSONValue? {
        get { index(of: key).map { members[$0].value } }
        set {
            switch (index(of: key), newValue) {
            case (let index?, let value?): members[index].value = value
            case (let index?, nil): members.remove(at: index)
            case (nil, let value?): members.append(Member(key: key, value: value))
            case (nil, nil): break
            }
        }
    }

    /// Applies a JSON Merge Patch (RFC 7386): objects merge key by key, null removes a key, everything else replaces.
    package func merging(_ patch: JSONObject) -> JSONObject {
        var merged = self
        for member in patch.members {
            switch member.value {
            case .null:
                merged[member.key] = nil
            case .object(let inner):
                let base = if case .object(let present) = merged[member.key] { present } else { JSONObject() }
                merged[member.key] = .object(base.merging(inner))
            default:
                merged[member.key] = member.value
            }
        }
        return merged
    }

    // By bytes: Swift compares texts by canonical equivalence, JSON does not.
    private func index(of key: String) -> Int? {
        members.firstIndex { $0.key.utf8.elementsEqual(key.utf8) }
    }
}
