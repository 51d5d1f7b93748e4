internal import CNghttp2

// C callbacks, nothing else: recover the connection, call one method.

func setSessionCallbacks(_ callbacks: OpaquePointer) {
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, headerReceived)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, dataReceived)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameReceived)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
}

private func connection(_ context: UnsafeMutableRawPointer?) -> Connection {
    // The session gets its owner's address when it is made, and dies before it.
    unsafe Unmanaged<Connection>.fromOpaque(context.unsafelyUnwrapped).takeUnretainedValue()
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
    unsafe connection(context).headerReceived(slot, name, UnsafeBufferPointer(start: value, count: valueCount))
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
    unsafe connection(context).dataReceived(slot, UnsafeBufferPointer(start: bytes, count: count))
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
        unsafe connection(context).settingsReceived()
    case NGHTTP2_GOAWAY.rawValue:
        let debug = unsafe UnsafeBufferPointer(start: frame.goaway.opaque_data, count: frame.goaway.opaque_data_len)
        unsafe connection(context).goAwayReceived(code: frame.goaway.error_code, debug: debug)
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
    if let slot = unsafe slot(session, stream) { unsafe connection(context).streamClosed(slot, code: code) }
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
    let (count, isLast) = unsafe connection(context).frameBody(slot, into: buffer, room: room)
    if isLast { unsafe flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return count
}
