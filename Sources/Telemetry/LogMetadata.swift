/// A value of a log line.
package enum LogValue: Sendable, Hashable {
    case text(String)
    case integer(Int64)
    case real(Double)
    case flag(Bool)

    /// The description of a value, as text.
    package static func describing(_ value: some CustomStringConvertible) -> LogValue {
        .text(value.description)
    }

    /// The text of an error.
    package static func describing(_ error: any Error) -> LogValue {
        .text("\(error)")
    }

    /// Any whole number; beyond 64 bits the end of the range.
    package static func number(_ value: some BinaryInteger) -> LogValue {
        .integer(Int64(clamping: value))
    }

    /// A duration in milliseconds.
    package static func milliseconds(_ duration: Duration) -> LogValue {
        .real(duration / .milliseconds(1))
    }
}

extension LogValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(booleanLiteral value: Bool) { self = .flag(value) }
}

/// What a log line says beside its message: keys and values in the order given. Written as a dictionary literal.
package struct LogMetadata: Sendable, ExpressibleByDictionaryLiteral {
    package private(set) var entries: [(key: LogKey, value: LogValue)]

    package init(dictionaryLiteral elements: (LogKey, LogValue)...) {
        entries = elements.map { (key: $0.0, value: $0.1) }
    }

    /// Reads the value of a key, or sets it in its place, or adds it, or takes it out with nil.
    package subscript(key: LogKey) -> LogValue? {
        get { entries.first { $0.key == key }?.value }
        set {
            let position = entries.firstIndex { $0.key == key }
            switch (position, newValue) {
            case (let position?, let value?): entries[position].value = value
            case (let position?, nil): entries.remove(at: position)
            case (nil, let value?): entries.append((key: key, value: value))
            case (nil, nil): break
            }
        }
    }

    /// These entries and then the others, which win where both have a key.
    package func merging(_ others: LogMetadata) -> LogMetadata {
        guard !entries.isEmpty else { return others }
        var merged = self
        for entry in others.entries { merged[entry.key] = entry.value }
        return merged
    }
}
