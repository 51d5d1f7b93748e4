// Writes header blocks (RFC 7541) with the encoder's table. Used once a batch: what differs from request to request is
// added by `HeaderTemplate` without going through here.
struct HeaderBlockWriter {
    private(set) var bytes: [UInt8] = []

    // How a field is sent: the pattern of its first byte and how many bits that leaves for an index.
    private struct Representation {
        let pattern: UInt8
        let bits: Int

        static let indexed = Representation(pattern: 0x80, bits: 7)
        static let entering = Representation(pattern: 0x40, bits: 6)
        static let literal = Representation(pattern: 0x00, bits: 4)
        static let neverIndexed = Representation(pattern: 0x10, bits: 4)
        static let sizeUpdate = Representation(pattern: 0x20, bits: 5)
    }

    // A literal without indexing whose name is :path, number 4 of the static table.
    static let literalPath: UInt8 = 0x04

    // The sizes of the table that the block must announce before anything else.
    mutating func appendSizeUpdates(of table: inout HeaderTable) {
        for size in table.takeSizeUpdates() { appendInteger(size, .sizeUpdate) }
    }

    // :method and :scheme.
    mutating func appendStart(method: [UInt8]) {
        switch method {
        case Array("GET".utf8): bytes.append(0x82)
        case Array("POST".utf8): bytes.append(0x83)
        default:
            bytes.append(0x02)
            appendString(method)
        }
        bytes.append(0x87)
    }

    mutating func appendPath(_ path: [UInt8]) {
        bytes.append(HeaderBlockWriter.literalPath)
        bytes += HeaderBlockWriter.integer(path.count, bits: 7, pattern: 0)
        bytes += path
    }

    // Refers to the field, or sends it and has the peer remember it.
    mutating func append(_ name: [UInt8], _ value: [UInt8], entering table: inout HeaderTable) {
        let match = table.find(name, value)
        guard table.canHold(name, value), !match.isField else { return append(name, value, lookingInto: table) }
        appendName(name, match, .entering)
        appendString(value)
        table.add(name, value)
    }

    // Refers to the field, or sends it for this once.
    mutating func append(_ name: [UInt8], _ value: [UInt8], lookingInto table: HeaderTable) {
        let match = table.find(name, value)
        if case .field(let index) = match { return appendInteger(index, .indexed) }
        appendName(name, match, .literal)
        appendString(value)
    }

    // A secret: neither our table nor that of any machine on the way may hold it.
    mutating func append(neverIndexed name: [UInt8], _ value: [UInt8], lookingInto table: HeaderTable) {
        appendName(name, table.find(name), .neverIndexed)
        appendString(value)
    }

    // The beginning of a field that is sent for this once: a value must follow.
    mutating func appendName(_ name: [UInt8], lookingInto table: HeaderTable) {
        appendName(name, table.find(name), .literal)
    }

    private mutating func appendName(_ name: [UInt8], _ match: HeaderTable.Match, _ kind: Representation) {
        if case .name(let index) = match { return appendInteger(index, kind) }
        bytes.append(kind.pattern)
        appendString(name)
    }

    private mutating func appendString(_ text: [UInt8]) {
        let coded = HuffmanCode.encode(text)
        if coded.count < text.count {
            bytes += HeaderBlockWriter.integer(coded.count, bits: 7, pattern: 0x80)
            bytes += coded
        } else {
            bytes += HeaderBlockWriter.integer(text.count, bits: 7, pattern: 0)
            bytes += text
        }
    }

    private mutating func appendInteger(_ value: Int, _ kind: Representation) {
        bytes += HeaderBlockWriter.integer(value, bits: kind.bits, pattern: kind.pattern)
    }

    static func integer(_ value: Int, bits: Int, pattern: UInt8) -> [UInt8] {
        let most = 1 << bits - 1
        if value < most { return [pattern | UInt8(value)] }
        var bytes = [pattern | UInt8(most)]
        var rest = value - most
        while rest >= 128 {
            bytes.append(UInt8(rest & 127) | 128)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
        return bytes
    }
}
