import Postgres

/// The rows of one chunk of an import file, ready for the database: no token and no installation is there twice.
struct DeviceChunk: Sendable {
    /// The rows as the staging table takes them.
    fileprivate(set) var rows = PostgresCopyBuffer()
    /// The line that the last row begins on.
    fileprivate(set) var lastLine = 0
    /// Data rows read, among them those refused or merged.
    fileprivate(set) var readCount = 0
    /// Rows that a later row of the file replaced.
    fileprivate(set) var mergedCount = 0
    fileprivate(set) var hasVoIPTokens = false
    fileprivate(set) var notices: [ImportNotice] = []
    fileprivate(set) var refusedCount = 0
    /// How much of the file was read, in bytes.
    var bytesRead = 0
}

/// What an import has to say about a row.
package struct ImportNotice: Sendable, Equatable {
    /// What happened to the row.
    package enum Kind: String, Sendable {
        /// It was not imported.
        case refused
        /// A later row about the same token or installation replaced it.
        case merged
        /// It was imported as it stands, but nothing shows that it is whole.
        case doubtful
    }

    /// The line that the row begins on; the header is line 1.
    package let line: Int
    package let kind: Kind
    /// The reason, beginning with the column.
    package let reason: String
}

/// Gathers rows into a chunk. Where two rows speak of one token or one installation, the later one wins.
struct DeviceChunkBuilder {
    private static let columnCount: Int16 = 13

    private var devices: [DeviceRow] = []
    private var indexByToken: [[UInt8]: Int] = [:]
    private var indexByInstallation: [[UInt8]: Int] = [:]
    private var indexByVoIPToken: [[UInt8]: Int] = [:]
    private var isReplaced: [Bool] = []
    private var chunk = DeviceChunk()

    /// Rows added since the last chunk was taken.
    var count: Int { chunk.readCount }

    mutating func add(_ row: Result<DeviceRow, RefusedRow>, seen: inout SeenTokens) {
        chunk.readCount += 1
        switch row {
        case .success(let device):
            chunk.lastLine = device.line
            noteDuplicate(of: device, seen: &seen)
            append(device)
        case .failure(let refused):
            chunk.lastLine = refused.line
            chunk.refusedCount += 1
            chunk.notices.append(ImportNotice(line: refused.line, kind: .refused, reason: refused.reason))
        }
    }

    /// Tells that no line end follows a row that was taken. Many good files lack it, but so does a file that was cut off.
    mutating func noteMissingLineEnd(after line: Int) {
        let reason =
            "the file does not end in a line end; this last row is imported as it stands, but a file that was cut "
            + "off looks like this"
        chunk.notices.append(ImportNotice(line: line, kind: .doubtful, reason: reason))
    }

    /// The chunk of the rows so far; the builder is empty after it.
    mutating func take() -> DeviceChunk {
        for (device, replaced) in zip(devices, isReplaced) where !replaced { encode(device) }
        let taken = chunk
        self = DeviceChunkBuilder()
        return taken
    }

    private mutating func noteDuplicate(of device: DeviceRow, seen: inout SeenTokens) {
        guard let earlier = seen.insert(channel: device.channel, token: device.token, line: device.line) else { return }
        chunk.mergedCount += 1
        let reason = "token is on line \(device.line) again, and that row wins"
        chunk.notices.append(ImportNotice(line: earlier, kind: .merged, reason: reason))
    }

    private mutating func append(_ device: DeviceRow) {
        let index = devices.count
        let key = device.token + device.channel.utf8
        if let earlier = indexByToken.updateValue(index, forKey: key) { isReplaced[earlier] = true }
        if let installation = device.installationID,
            let earlier = indexByInstallation.updateValue(index, forKey: installation), !isReplaced[earlier]
        {
            isReplaced[earlier] = true
            chunk.mergedCount += 1
            let reason = "installation_id is on line \(device.line) again, and that row wins"
            chunk.notices.append(ImportNotice(line: devices[earlier].line, kind: .merged, reason: reason))
        }
        if let voipToken = device.voipToken {
            chunk.hasVoIPTokens = true
            if let earlier = indexByVoIPToken.updateValue(index, forKey: voipToken) { devices[earlier].voipToken = nil }
        }
        devices.append(device)
        isReplaced.append(false)
    }

    private mutating func encode(_ device: DeviceRow) {
        chunk.rows.startRow(columnCount: Self.columnCount)
        chunk.rows.append(int32: Int32(clamping: device.line))
        chunk.rows.append(text: device.channel)
        if let environment = device.environment {
            chunk.rows.append(text: environment)
        } else {
            chunk.rows.appendNull()
        }
        chunk.rows.append(bytes: device.token)
        append(device.voipToken)
        append(device.installationID)
        append(device.externalID)
        if let tags = device.tags { chunk.rows.append(jsonb: tags) } else { chunk.rows.appendNull() }
        append(device.locale)
        append(device.timezone)
        append(device.appVersion)
        append(device.osVersion)
        append(device.model)
    }

    private mutating func append(_ bytes: [UInt8]?) {
        if let bytes { chunk.rows.append(bytes: bytes) } else { chunk.rows.appendNull() }
    }
}

/// Remembers the tokens of a file by a 64-bit hash, to report those that come again. About 32 bytes a token.
struct SeenTokens: Sendable {
    /// Beyond it later duplicates are merged all the same, but no longer reported: memory stays below 256 MiB.
    static let capacity = 6_000_000

    private var lineByHash: [Int: UInt32] = [:]

    /// Notes a token, and returns the line where it was before.
    mutating func insert(channel: String, token: [UInt8], line: Int) -> Int? {
        var hasher = Hasher()
        hasher.combine(channel)
        hasher.combine(token)
        let hash = hasher.finalize()
        guard lineByHash.count < Self.capacity || lineByHash[hash] != nil else { return nil }
        return lineByHash.updateValue(UInt32(clamping: line), forKey: hash).map(Int.init)
    }
}
