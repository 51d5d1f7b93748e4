internal import CNghttp2

// C callbacks, nothing else: recover the connection, call one method.

func setSessionCallbacks(_ callbacks: OpaquePointer) {
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, headerReceived)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, dataReceived)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameReceived)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
}

// The session gets its owner's address when it is made, and dies before it; so no callback counts references.
private func withConnection<R>(_ context: UnsafeMutableRawPointer?, _ body: (Connection) -> R) -> R {
    unsafe Unmanaged<Connection>.fromOpaque(context.unsafelyUnwrapped)._withUnsafeGuaranteedRef(body)
}

// nil for a stream that is not ours, such as a push that the peer must not make.
private func slot(_ session: OpaquePointer?, _ stream: Int32) -> Int? {
    let number = Int(bitPattern: unsafe nghttp2_session_get_stream_user_data(session, stream))
    return number > 0 ? number - 1 : nil
}

private func headerReceived(
    _ session: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ name: UnsafePointer<UInt8>?,
    _ nameCount: Int,
    _ value: UnsafePointer<UInt8>?,
    _ valueCount: Int,
    _ flags: UInt8,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame, let slot = unsafe slot(session, frame.pointee.hd.stream_id) else { return 0 }
    let name = unsafe UnsafeBufferPointer(start: name, count: nameCount)
    let value = unsafe UnsafeBufferPointer(start: value, count: valueCount)
    unsafe withConnection(context) { unsafe $0.headerReceived(slot, name, value) }
    return 0
}

private func dataReceived(
    _ session: OpaquePointer?,
    _ flags: UInt8,
    _ stream: Int32,
    _ bytes: UnsafePointer<UInt8>?,
    _ count: Int,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let slot = unsafe slot(session, stream) else { return 0 }
    let content = unsafe UnsafeBufferPointer(start: bytes, count: count)
    unsafe withConnection(context) { unsafe $0.dataReceived(slot, content) }
    return 0
}

private func frameReceived(
    _ session: OpaquePointer?,
    _ frame: UnsafePointer<nghttp2_frame>?,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame?.pointee else { return 0 }
    switch UInt32(unsafe frame.hd.type) {
    case NGHTTP2_SETTINGS.rawValue where unsafe frame.hd.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) == 0:
        unsafe withConnection(context) { $0.settingsReceived() }
    case NGHTTP2_GOAWAY.rawValue:
        let debug = unsafe UnsafeBufferPointer(start: frame.goaway.opaque_data, count: frame.goaway.opaque_data_len)
        unsafe withConnection(context) { unsafe $0.goAwayReceived(code: frame.goaway.error_code, debug: debug) }
    default: break
    }
    return 0
}

private func streamClosed(
    _ session: OpaquePointer?,
    _ stream: Int32,
    _ code: UInt32,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    if let slot = unsafe slot(session, stream) {
        unsafe withConnection(context) { $0.streamClosed(slot, code: code) }
    }
    return 0
}

func readBody(
    _ session: OpaquePointer?,
    _ stream: Int32,
    _ buffer: UnsafeMutablePointer<UInt8>?,
    _ room: Int,
    _ flags: UnsafeMutablePointer<UInt32>?,
    _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _ context: UnsafeMutableRawPointer?
) -> Int {
    guard let buffer = unsafe buffer, let source = unsafe source else { return 0 }
    let slot = Int(bitPattern: unsafe source.pointee.ptr) - 1
    let (count, isLast) = unsafe withConnection(context) { unsafe $0.frameBody(slot, into: buffer, room: room) }
    if isLast { unsafe flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return count
}
