/// A column of the file that an import reads, besides those called `tag.NAME`.
package enum DeviceColumn: String, Sendable, CaseIterable {
    case channel, token, environment
    case voipToken = "voip_token"
    case installationID = "installation_id"
    case externalID = "external_id"
    case tags, locale, timezone
    case appVersion = "app_version"
    case osVersion = "os_version"
    case model
}

/// What the header row of an import file says: which field of a row is what.
package struct DeviceHeader: Sendable {
    /// The place of each column that the file has.
    package let places: [DeviceColumn: Int]
    /// The places of the `tag.NAME` columns, with the names.
    package let tagPlaces: [(name: String, place: Int)]
    /// How many fields a row must have.
    package let count: Int

    /// The columns that the file has, as the database calls them.
    package var presentColumns: [String] {
        places.keys.map(\.rawValue).sorted()
    }

    /// Reads the header. Throws status 4 that shows the header where a column is unknown, missing or there twice.
    package init(_ row: CSVParser.Row) throws(CommandError) {
        var places: [DeviceColumn: Int] = [:]
        var tagPlaces: [(name: String, place: Int)] = []
        let names = (0..<row.count).map { Self.trimmed(row.text($0)) }
        for (place, name) in names.enumerated() {
            if name.hasPrefix("tag."), name.count > 4 {
                let tag = String(name.dropFirst(4))
                if tagPlaces.contains(where: { $0.name == tag }) {
                    throw Self.refusal("column \(name) is there twice", names)
                }
                tagPlaces.append((tag, place))
                continue
            }
            guard let column = DeviceColumn(rawValue: name.lowercased()) else {
                let guess = NearestName.of(name.lowercased(), among: DeviceColumn.allCases.map(\.rawValue))
                let hint = guess.map { " (did you mean \($0)?)" } ?? ""
                throw Self.refusal("column '\(name)' is not known\(hint)", names)
            }
            if places.updateValue(place, forKey: column) != nil {
                throw Self.refusal("column \(column.rawValue) is there twice", names)
            }
        }
        for column in [DeviceColumn.channel, .token] where places[column] == nil {
            throw Self.refusal("column \(column.rawValue) is missing", names)
        }
        self.places = places
        self.tagPlaces = tagPlaces
        count = names.count
    }

    private static func refusal(_ what: String, _ names: [String]) -> CommandError {
        let known = DeviceColumn.allCases.map(\.rawValue).joined(separator: ", ")
        let shown = names.joined(separator: " | ").prefix(200)
        return CommandError(
            .refused,
            what,
            at: "line 1, which reads: \(shown)",
            advice: "a header row of these is expected: \(known), tag.NAME; channel and token must be there"
        )
    }

    private static func trimmed(_ text: String) -> String {
        let isSpace = { (character: Character) in character.isWhitespace || character == "\u{FEFF}" }
        let start = text.drop(while: isSpace)
        return String(start.reversed().drop(while: isSpace).reversed())
    }
}
