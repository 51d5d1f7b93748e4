import PushCore

/// Checks the rows of an import file by the rules that `peal.register_device` has.
package struct DeviceRowReader: Sendable {
    /// What is wrong with a row; the caller knows the line.
    struct Refusal: Error {
        let reason: String

        init(_ reason: String) {
            self.reason = reason
        }
    }

    /// Longer values do not fit into an index.
    static let textLimitBytes = 1024
    /// The twin of `peal.names_nothing`.
    private static let wordsForNothing = ["(null)", "<null>", "null", "undefined"]

    private let header: DeviceHeader
    private let timezones: Set<String>

    /// A reader for a file with this header. `timezones` are the names that the server knows.
    package init(header: DeviceHeader, timezones: Set<String>) {
        self.header = header
        self.timezones = timezones
    }

    /// The device of a row, or why it is refused.
    package func read(_ row: CSVParser.Row) -> Result<DeviceRow, RefusedRow> {
        do {
            return .success(try device(of: row))
        } catch {
            return .failure(RefusedRow(line: row.line, reason: error.reason))
        }
    }

    private func device(of row: CSVParser.Row) throws(Refusal) -> DeviceRow {
        if let fault = row.fault { throw Refusal(fault) }
        guard row.count == header.count else {
            let cut = row.endsWithFile && row.count < header.count ? ": the file is cut off here" : ""
            throw Refusal("the row has \(counted(row.count, "field")), the header has \(header.count)\(cut)")
        }
        var device = DeviceRow()
        device.line = row.line
        device.channel = try word(.channel, of: row, among: ["ios", "android"]) ?? ""
        if device.channel.isEmpty { throw Refusal("channel is empty; it must be ios or android") }
        device.environment = try word(.environment, of: row, among: ["production", "sandbox"])
        let isIOS = device.channel == "ios"
        guard let token = field(.token, of: row) else { throw Refusal("token is empty") }
        device.token = isIOS ? try apnsToken(token, .token) : try fcmToken(token)
        if let voipToken = field(.voipToken, of: row) {
            guard isIOS else { throw Refusal("voip_token belongs to ios alone") }
            device.voipToken = try apnsToken(voipToken, .voipToken)
        }
        device.installationID = try identifier(.installationID, of: row)
        device.externalID = try identifier(.externalID, of: row)
        device.tags = try tags(of: row)
        device.locale = try text(.locale, of: row)
        device.timezone = try timezone(of: row)
        device.appVersion = try text(.appVersion, of: row)
        device.osVersion = try text(.osVersion, of: row)
        device.model = try text(.model, of: row)
        return device
    }

    /// The bytes of a field, or nil where the file has no such column or the field is empty.
    private func field(_ column: DeviceColumn, of row: CSVParser.Row) -> ArraySlice<UInt8>? {
        guard let place = header.places[column] else { return nil }
        let bytes = row.field(place)
        return bytes.isEmpty ? nil : bytes
    }

    private func word(
        _ column: DeviceColumn,
        of row: CSVParser.Row,
        among words: [String]
    ) throws(Refusal) -> String? {
        guard let bytes = field(column, of: row) else { return nil }
        for word in words where bytes.elementsEqual(word.utf8) { return word }
        let typed = String(decoding: bytes, as: UTF8.self)
        let lower = typed.lowercased().split(whereSeparator: \.isWhitespace).joined(separator: " ")
        if let word = words.first(where: { $0 == lower }) { return word }
        if lower.isEmpty { return nil }
        throw Refusal("\(column.rawValue) must be \(words.joined(separator: " or ")), found '\(Self.shown(typed))'")
    }

    private func text(_ column: DeviceColumn, of row: CSVParser.Row) throws(Refusal) -> [UInt8]? {
        guard let bytes = field(column, of: row) else { return nil }
        return try Self.checkedText(bytes, named: column.rawValue)
    }

    private func identifier(_ column: DeviceColumn, of row: CSVParser.Row) throws(Refusal) -> [UInt8]? {
        guard let bytes = try text(column, of: row) else { return nil }
        try Self.refuse(Self.wordsForNothing, in: bytes[...], named: column.rawValue)
        return bytes
    }

    /// What programs write where they have nothing. As an identifier it would make one of all that have nothing.
    private static func refuse(
        _ words: [String],
        in bytes: ArraySlice<UInt8>,
        named name: String
    ) throws(Refusal) {
        let text = String(decoding: bytes.prefix(12), as: UTF8.self)
        if words.contains(text.lowercased()) { throw Refusal("\(name) is the word '\(text)'") }
    }

    private static func checkedText(_ bytes: ArraySlice<UInt8>, named name: String) throws(Refusal) -> [UInt8] {
        guard bytes.count <= textLimitBytes else { throw Refusal("\(name) is longer than \(textLimitBytes) bytes") }
        var isASCII = true
        for byte in bytes {
            if byte == 0 { throw Refusal("\(name) holds the character U+0000") }
            if byte >= 0x80 { isASCII = false }
        }
        guard isASCII || String(validating: bytes, as: UTF8.self) != nil else {
            throw Refusal("\(name) is not UTF-8: save the file as UTF-8")
        }
        return Array(bytes)
    }

    private func timezone(of row: CSVParser.Row) throws(Refusal) -> [UInt8]? {
        guard let bytes = try text(.timezone, of: row) else { return nil }
        let name = String(decoding: bytes, as: UTF8.self)
        guard timezones.contains(name) else {
            throw Refusal("timezone must be an IANA name such as Europe/Berlin, found '\(Self.shown(name))'")
        }
        return bytes
    }

    static func shown(_ text: String) -> String {
        text.count > 40 ? "\(text.prefix(40))…" : text
    }
}

// MARK: - Tokens

extension DeviceRowReader {
    /// Old clients wrote a token as it is printed: in groups, between angle brackets.
    private func apnsToken(_ bytes: ArraySlice<UInt8>, _ column: DeviceColumn) throws(Refusal) -> [UInt8] {
        var digits: [UInt8] = []
        digits.reserveCapacity(bytes.count)
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): digits.append(byte)
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digits.append(byte | 0x20)
            case UInt8(ascii: " "), UInt8(ascii: "<"), UInt8(ascii: ">"): continue
            default:
                throw Refusal("\(column.rawValue) is no APNs token: it must be hexadecimal (is the channel right?)")
            }
        }
        guard !digits.isEmpty, digits.count % 2 == 0, digits.count <= 512 else {
            throw Refusal("\(column.rawValue) is no APNs token: it has \(digits.count) hex digits")
        }
        return digits
    }

    private func fcmToken(_ bytes: ArraySlice<UInt8>) throws(Refusal) -> [UInt8] {
        guard bytes.count <= 4096, bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Refusal("token is no FCM token: it must be 1 to 4096 printable characters without spaces")
        }
        try Self.refuse(Self.wordsForNothing + ["nil", "none"], in: bytes, named: "token")
        return Array(bytes)
    }
}

// MARK: - Tags

extension DeviceRowReader {
    private func tags(of row: CSVParser.Row) throws(Refusal) -> [UInt8]? {
        var object: JSONObject?
        if let bytes = field(.tags, of: row) {
            object = try Self.object(Array(bytes))
            if header.tagPlaces.isEmpty { return Array(bytes) }
        }
        for (name, place) in header.tagPlaces where !row.field(place).isEmpty {
            let value = try Self.checkedText(row.field(place), named: "tag.\(name)")
            object = object ?? JSONObject()
            object?[name] = .string(String(decoding: value, as: UTF8.self))
        }
        return object.map { tags in
            var writer = ByteWriter()
            writer.append(json: tags)
            return writer.bytes
        }
    }

    private static func object(_ bytes: [UInt8]) throws(Refusal) -> JSONObject {
        do {
            if case .object(let tags) = try JSONValue.parse(bytes, root: "tags") { return tags }
        } catch {
            throw Refusal(error.description)
        }
        throw Refusal("tags must be a JSON object")
    }
}
