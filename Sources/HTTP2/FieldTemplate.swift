internal import CNghttp2

// Fields that a pool adds to all its requests, such as `authorization`. Replaced as a whole, never changed.
final class PoolFields {
    struct Field {
        let name: [UInt8]
        let value: [UInt8]
    }

    let fields: [Field]
    let bytes: PinnedBytes
    let authority: ByteRange
    let ranges: [(name: ByteRange, value: ByteRange)]
    let pseudo: PseudoNames

    // The names that every request begins with.
    struct PseudoNames {
        let method: ByteRange
        let scheme: ByteRange
        let https: ByteRange
        let authority: ByteRange
        let path: ByteRange
    }

    init(authority: String, fields: [Field]) {
        self.fields = fields
        var bytes: [UInt8] = []
        func store(_ content: some Sequence<UInt8>) -> ByteRange {
            let start = bytes.count
            bytes.append(contentsOf: content)
            return ByteRange(start: UInt32(start), count: UInt32(bytes.count - start))
        }
        pseudo = PseudoNames(
            method: store(":method".utf8),
            scheme: store(":scheme".utf8),
            https: store("https".utf8),
            authority: store(":authority".utf8),
            path: store(":path".utf8)
        )
        self.authority = store(authority.utf8)
        ranges = fields.map { (name: store($0.name), value: store($0.value)) }
        self.bytes = PinnedBytes(bytes)
    }

    func with(_ name: [UInt8], _ value: [UInt8], authority: String) -> PoolFields {
        PoolFields(authority: authority, fields: fields.filter { $0.name != name } + [Field(name: name, value: value)])
    }
}

// The header of a batch's requests as nghttp2 takes it. Everything but the path and a request's own fields is written
// once per batch; nghttp2 reads names and values where they lie.
@safe
final class FieldTemplate {
    let batch: RequestBatch
    let poolFields: PoolFields
    let namesAreKnown: Bool
    private(set) var count = 0
    let fields: UnsafeMutablePointer<nghttp2_nv>
    private let fixedCount: Int
    // Requests that are queued in nghttp2 but not framed may still point into these.
    private var former: [PoolFields]

    private static let pathIndex = 3
    private static let notCopied = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue)
    private static let notIndexed = notCopied | UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)

    init(batch: RequestBatch, poolFields: PoolFields, namesAreKnown: Bool, after last: FieldTemplate?) {
        self.batch = batch
        self.poolFields = poolFields
        self.namesAreKnown = namesAreKnown
        former = last.map { $0.former + ($0.poolFields === poolFields ? [] : [$0.poolFields]) } ?? []
        fixedCount = 4 + poolFields.ranges.count + batch.sharedFields.count
        unsafe fields = .allocate(capacity: fixedCount + batch.ownFields.count)
        unsafe fields.initialize(repeating: nghttp2_nv(), count: fixedCount + batch.ownFields.count)
        let names = poolFields.pseudo
        unsafe add(pool: names.method, batch.bytes.pointer(to: batch.method), batch.method.count)
        unsafe add(pool: names.scheme, poolFields.bytes.pointer(to: names.https), names.https.count)
        unsafe add(
            pool: names.authority,
            poolFields.bytes.pointer(to: poolFields.authority),
            poolFields.authority.count
        )
        unsafe add(pool: names.path, poolFields.bytes.base, 0)
        for range in poolFields.ranges {
            unsafe add(pool: range.name, poolFields.bytes.pointer(to: range.value), range.value.count)
        }
        for field in batch.sharedFields {
            let flags = field.isIndexed || !namesAreKnown ? FieldTemplate.notCopied : FieldTemplate.notIndexed
            unsafe set(count, batch.bytes.pointer(to: field.name), field.name.count, flags)
            unsafe setValue(count, batch.bytes.pointer(to: field.value), field.value.count)
            count += 1
        }
    }

    deinit {
        unsafe fields.deallocate()
    }

    // Writes what is this request's own.
    func fill(_ entry: RequestBatch.Entry, of batch: RequestBatch) {
        unsafe setValue(FieldTemplate.pathIndex, batch.bytes.pointer(to: entry.path), entry.path.count)
        count = fixedCount
        for (position, field) in batch.ownFields.enumerated() {
            let value = position == 0 ? entry.firstValue : entry.secondValue
            if value.isEmpty { continue }
            let flags = namesAreKnown ? FieldTemplate.notIndexed : FieldTemplate.notCopied
            unsafe set(count, batch.bytes.pointer(to: field.name), field.name.count, flags)
            unsafe setValue(count, batch.bytes.pointer(to: value), value.count)
            count += 1
        }
    }

    func dropFormerFields() {
        if !former.isEmpty { former = [] }
    }

    private func add(pool name: ByteRange, _ value: UnsafeMutablePointer<UInt8>, _ valueCount: UInt32) {
        unsafe set(count, poolFields.bytes.pointer(to: name), name.count, FieldTemplate.notCopied)
        unsafe setValue(count, value, valueCount)
        count += 1
    }

    private func set(_ index: Int, _ name: UnsafeMutablePointer<UInt8>, _ nameCount: UInt32, _ flags: UInt8) {
        unsafe fields[index].name = unsafe name
        unsafe fields[index].namelen = Int(nameCount)
        unsafe fields[index].flags = flags
    }

    private func setValue(_ index: Int, _ value: UnsafeMutablePointer<UInt8>, _ valueCount: UInt32) {
        unsafe fields[index].value = unsafe value
        unsafe fields[index].valuelen = Int(valueCount)
    }
}
