internal import CNghttp2

// Decodes header blocks (HPACK) with nghttp2's inflater, which keeps the table of the connection.
@safe
final class HeaderDecoder {
    private let handle: OpaquePointer
    // What the fields of one answer may weigh at most, as our SETTINGS say.
    static let largestList = 64 * 1024

    init?() {
        var made: OpaquePointer?
        guard unsafe nghttp2_hd_inflate_new(&made) == 0, let made = unsafe made else { return nil }
        unsafe handle = unsafe made
    }

    deinit {
        unsafe nghttp2_hd_inflate_del(handle)
    }

    // What the peer's fields take up in the table now, as RFC 7541 counts them.
    var tableBytes: Int { unsafe nghttp2_hd_inflate_get_dynamic_table_size(handle) }

    // Hands over each field of a whole block. The names and values are only valid during the call.
    func decode(
        _ block: UnsafeBufferPointer<UInt8>,
        _ field: (_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Void
    ) throws(ProtocolFault) {
        if unsafe PlainBlock.decode(block, field) { return }
        var position = 0
        var size = 0
        while true {
            var pair = unsafe nghttp2_nv()
            var flags: Int32 = 0
            let start = unsafe block.baseAddress.map { unsafe $0 + position }
            let taken = unsafe nghttp2_hd_inflate_hd2(handle, &pair, &flags, start, block.count - position, 1)
            guard taken >= 0 else { throw ProtocolFault(.compression, "a header block cannot be decoded") }
            position += taken
            let hasField = flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0
            if hasField {
                size += unsafe HeaderTable.size(pair.namelen, pair.valuelen)
                guard size <= HeaderDecoder.largestList else {
                    throw ProtocolFault(.enhanceYourCalm, "an answer's header is larger than 64 KiB")
                }
                unsafe field(
                    UnsafeBufferPointer(start: pair.name, count: pair.namelen),
                    UnsafeBufferPointer(start: pair.value, count: pair.valuelen)
                )
            }
            if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 {
                unsafe nghttp2_hd_inflate_end_headers(handle)
                return
            }
            if taken == 0, !hasField { throw ProtocolFault(.compression, "a header block is cut short") }
        }
    }
}
