import PushCore

/// The final outcome of a recipient, as result rows carry it.
enum RecipientOutcome: Int16, Sendable {
    case accepted = 1
    case rejected, skipped, expired, superseded, cancelled, unknown
}

/// Outcomes of recipients that are not written yet: flat entries and one arena for the providers' ids.
struct ResultRows: Sendable {
    /// What many rows have in common.
    struct Kind: Hashable, Sendable {
        let outcome: RecipientOutcome
        /// 0 for none.
        let status: Int16
        let reason: ReasonTable.Index
    }

    /// One result row.
    struct Entry: Sendable {
        let device: Int64
        let kind: Kind
        let idStart: UInt32
        let idCount: UInt16
        let uniqueIDCount: UInt16
    }

    private(set) var entries: [Entry] = []
    private(set) var bytes: [UInt8] = []

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }

    /// Longer ids of a provider are cut.
    static let idLimit = 512

    mutating func append(device: Int64, outcome: RecipientOutcome, status: Int, reason: ReasonTable.Index) {
        entries.append(
            Entry(
                device: device,
                kind: Kind(outcome: outcome, status: Int16(clamping: status), reason: reason),
                idStart: 0,
                idCount: 0,
                uniqueIDCount: 0
            )
        )
    }

    /// Adds an accepted recipient with the ids that the provider gave, read from its answer.
    mutating func appendAccepted(
        device: Int64,
        status: Int,
        id: Range<Int>?,
        uniqueID: Range<Int>?,
        in answer: Span<UInt8>
    ) {
        let start = bytes.count
        let idCount = copyID(id, from: answer)
        let uniqueIDCount = copyID(uniqueID, from: answer)
        entries.append(
            Entry(
                device: device,
                kind: Kind(outcome: .accepted, status: Int16(clamping: status), reason: .none),
                idStart: UInt32(truncatingIfNeeded: start),
                idCount: UInt16(idCount),
                uniqueIDCount: UInt16(uniqueIDCount)
            )
        )
    }

    /// The provider's id of an entry, empty for none.
    func id(of entry: Entry) -> ArraySlice<UInt8> {
        let start = Int(entry.idStart)
        return bytes[start..<start + Int(entry.idCount)]
    }

    /// The provider's unique id of an entry, empty for none.
    func uniqueID(of entry: Entry) -> ArraySlice<UInt8> {
        let start = Int(entry.idStart) + Int(entry.idCount)
        return bytes[start..<start + Int(entry.uniqueIDCount)]
    }

    // What a peer sent goes into a text column: anything that is not printable ASCII would fail a whole COPY.
    private mutating func copyID(_ range: Range<Int>?, from answer: Span<UInt8>) -> Int {
        guard let range else { return 0 }
        let count = min(range.count, Self.idLimit)
        let start = bytes.count
        bytes.append(contentsOf: repeatElement(UInt8(ascii: "?"), count: count))
        var text = bytes.mutableSpan
        for offset in 0..<count {
            let byte = answer[range.lowerBound + offset]
            if (0x20..<0x7F).contains(byte) { text[start + offset] = byte }
        }
        return count
    }
}

/// The texts of reasons, each stored once, so that a result carries a number. Bounded: a provider that makes reasons up
/// cannot fill the memory.
struct ReasonTable: Sendable {
    struct Index: Hashable, Sendable {
        fileprivate let number: UInt16
        /// No reason.
        static let none = Index(number: 0)
    }

    private var texts: [String] = ["", "other"]
    private var indices: [String: Index] = ["": .none]

    /// Reasons beyond so many different ones are called `other`.
    static let limit = 4_096
    /// Longer reasons are cut.
    static let lengthLimit = 200

    /// The number of a text: printable ASCII, cut to `lengthLimit` bytes.
    mutating func index(of text: String) -> Index {
        if let known = indices[text] { return known }
        guard texts.count < Self.limit else { return Index(number: 1) }
        let clean = String(
            decoding: text.utf8.prefix(Self.lengthLimit).map { (0x20..<0x7F).contains($0) ? $0 : UInt8(ascii: "?") },
            as: UTF8.self
        )
        let index = Index(number: UInt16(texts.count))
        texts.append(clean)
        indices[text] = index
        return index
    }

    /// The text of a number.
    subscript(index: Index) -> String { texts[Int(index.number)] }
}
