import CNghttp2

/// The nghttp2 session of one accepted connection: owns the C object, turns callbacks into calls on the connection.
@safe
final class HTTP2Server {
    private let session: OpaquePointer

    /// Starts a session and queues its first SETTINGS.
    ///
    /// `connection` is told of everything by unretained reference: it must outlive the session.
    init?(connection: ServerConnection, settings: [(id: nghttp2_settings_id, value: UInt32)], window: Int32) {
        var callbacks: OpaquePointer?
        var option: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0 else { return nil }
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        guard unsafe nghttp2_option_new(&option) == 0 else { return nil }
        defer { unsafe nghttp2_option_del(option) }
        unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, onBeginHeaders)
        unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader)
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onDataChunk)
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame)
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onStreamClose)
        unsafe nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, onInvalidFrame)
        // Clients under test may cancel thousands of streams; closed streams need not be remembered for priorities.
        unsafe nghttp2_option_set_stream_reset_rate_limit(option, 1_000_000, 1_000_000)
        unsafe nghttp2_option_set_no_closed_streams(option, 1)
        var session: OpaquePointer?
        let user = unsafe Unmanaged.passUnretained(connection).toOpaque()
        guard unsafe nghttp2_session_server_new2(&session, callbacks, user, option) == 0, let session = unsafe session
        else { return nil }
        unsafe self.session = session
        guard submit(settings: settings) else { return nil }
        if window > 65_535 { unsafe nghttp2_session_set_local_window_size(session, 0, 0, window) }
    }

    deinit { unsafe nghttp2_session_del(session) }

    // MARK: Bytes

    /// Feeds what was read; false when the session is broken or a callback asked to stop.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let base = unsafe bytes.assumingMemoryBound(to: UInt8.self).baseAddress
        return unsafe nghttp2_session_mem_recv(session, base, bytes.count) >= 0
    }

    /// Hands the next piece of output to `take`; false when there is none.
    func nextOutput(_ take: (UnsafeRawBufferPointer) -> Void) -> Bool {
        var data: UnsafePointer<UInt8>?
        let count = unsafe nghttp2_session_mem_send(session, &data)
        guard count > 0 else { return false }
        unsafe take(UnsafeRawBufferPointer(start: data, count: count))
        return true
    }

    var wantsRead: Bool { unsafe nghttp2_session_want_read(session) != 0 }
    var wantsWrite: Bool { unsafe nghttp2_session_want_write(session) != 0 }

    // MARK: Frames

    @discardableResult
    func submit(settings: [(id: nghttp2_settings_id, value: UInt32)]) -> Bool {
        let entries = settings.map {
            nghttp2_settings_entry(settings_id: Int32($0.id.rawValue), value: $0.value)
        }
        return unsafe nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), entries, entries.count) == 0
    }

    func reset(stream: Int32, code: UInt32) {
        unsafe nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code)
    }

    /// The first step of a graceful end: last stream id 2^31-1.
    func submitShutdownNotice() {
        unsafe nghttp2_submit_shutdown_notice(session)
    }

    func goAway(lastStream: Int32, code: UInt32, debugData: String) {
        let debug = Array(debugData.utf8)
        unsafe nghttp2_submit_goaway(
            session,
            UInt8(NGHTTP2_FLAG_NONE.rawValue),
            lastStream,
            code,
            debug,
            debug.count
        )
    }

    /// Queues an answer. With `hasBody` the body is pulled through `ServerConnection.readBody`.
    @discardableResult
    func respond(stream: Int32, headers: UnsafeBufferPointer<nghttp2_nv>, hasBody: Bool) -> Bool {
        guard hasBody else {
            return unsafe nghttp2_submit_response(session, stream, headers.baseAddress, headers.count, nil) == 0
        }
        var provider = unsafe nghttp2_data_provider(source: nghttp2_data_source(fd: 0), read_callback: onReadBody)
        return unsafe nghttp2_submit_response(session, stream, headers.baseAddress, headers.count, &provider) == 0
    }

    /// The slot number that belongs to a stream; nil when the stream is gone.
    func slot(of stream: Int32) -> Int? {
        let value = unsafe Int(bitPattern: nghttp2_session_get_stream_user_data(session, stream))
        return value == 0 ? nil : value - 1
    }

    func set(slot: Int, of stream: Int32) {
        unsafe nghttp2_session_set_stream_user_data(session, stream, UnsafeMutableRawPointer(bitPattern: slot + 1))
    }
}

private let stop = Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)

/// The connection behind a callback's user pointer.
private func connection(_ user: UnsafeMutableRawPointer?) -> ServerConnection? {
    guard let user = unsafe user else { return nil }
    return unsafe Unmanaged<ServerConnection>.fromOpaque(user).takeUnretainedValue()
}

/// A stream begins.
private func onBeginHeaders(
    _: OpaquePointer?,
    frame: UnsafePointer<nghttp2_frame>?,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let connection = unsafe connection(user), let frame = unsafe frame else { return stop }
    unsafe connection.beganHeaders(stream: frame.pointee.hd.stream_id)
    return 0
}

/// One request header.
private func onHeader(
    _: OpaquePointer?,
    frame: UnsafePointer<nghttp2_frame>?,
    name: UnsafePointer<UInt8>?,
    nameLength: Int,
    value: UnsafePointer<UInt8>?,
    valueLength: Int,
    _: UInt8,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let connection = unsafe connection(user), let frame = unsafe frame else { return stop }
    unsafe connection.header(
        stream: frame.pointee.hd.stream_id,
        name: UnsafeBufferPointer(start: name, count: nameLength),
        value: UnsafeBufferPointer(start: value, count: valueLength)
    )
    return 0
}

/// A piece of a request body.
private func onDataChunk(
    _: OpaquePointer?,
    _: UInt8,
    stream: Int32,
    data: UnsafePointer<UInt8>?,
    length: Int,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let connection = unsafe connection(user) else { return stop }
    unsafe connection.body(stream: stream, UnsafeBufferPointer(start: data, count: length))
    return 0
}

/// A whole frame came in.
private func onFrame(
    _: OpaquePointer?,
    frame: UnsafePointer<nghttp2_frame>?,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let connection = unsafe connection(user), let frame = unsafe frame else { return stop }
    return unsafe connection.received(frame.pointee.hd) ? 0 : stop
}

/// A frame broke the protocol. HEADERS do so when they open a stream too many.
private func onInvalidFrame(
    _: OpaquePointer?,
    frame: UnsafePointer<nghttp2_frame>?,
    error: Int32,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let connection = unsafe connection(user), let frame = unsafe frame else { return stop }
    let head = unsafe frame.pointee.hd
    if UInt32(head.type) == NGHTTP2_HEADERS.rawValue, error == NGHTTP2_ERR_PROTO.rawValue {
        connection.brokeRules(openingStream: head.stream_id)
    }
    return 0
}

/// A stream is over, whoever ended it.
private func onStreamClose(_: OpaquePointer?, stream: Int32, _: UInt32, user: UnsafeMutableRawPointer?) -> Int32 {
    guard let connection = unsafe connection(user) else { return stop }
    connection.closed(stream: stream)
    return 0
}

/// The session wants more of an answer's body.
private func onReadBody(
    _: OpaquePointer?,
    stream: Int32,
    buffer: UnsafeMutablePointer<UInt8>?,
    length: Int,
    flags: UnsafeMutablePointer<UInt32>?,
    _: UnsafeMutablePointer<nghttp2_data_source>?,
    user: UnsafeMutableRawPointer?
) -> Int {
    guard let connection = unsafe connection(user), let flags = unsafe flags else { return Int(stop) }
    let piece = unsafe connection.readBody(
        stream: stream,
        into: UnsafeMutableBufferPointer(start: buffer, count: length)
    )
    if piece.isLast { unsafe flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return piece.isDeferred ? Int(NGHTTP2_ERR_DEFERRED.rawValue) : piece.count
}
