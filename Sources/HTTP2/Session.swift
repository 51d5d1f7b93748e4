internal import CNghttp2

// Owns an nghttp2_session: the codec of one connection. It knows streams, slots and bytes, nothing of requests or
// pools; a codec of our own could take its place.
@safe
final class Session {
    private let handle: OpaquePointer

    enum Submitted {
        case stream(Int32)
        // This connection has no stream ids left, or the peer said goodbye.
        case noMoreStreams
        case failed(String)
    }

    // `owner` gets the callbacks (SessionCallbacks.swift) and must outlive the session.
    init?(owner: Connection, initialStreams: Int) {
        var callbacks: OpaquePointer?
        var option: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&callbacks) == 0, let callbacks = unsafe callbacks else {
            return nil
        }
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        guard unsafe nghttp2_option_new(&option) == 0, let option = unsafe option else { return nil }
        defer { unsafe nghttp2_option_del(option) }
        unsafe setSessionCallbacks(callbacks)
        unsafe nghttp2_option_set_peer_max_concurrent_streams(option, UInt32(initialStreams))
        unsafe nghttp2_option_set_no_closed_streams(option, 1)
        var made: OpaquePointer?
        let context = unsafe Unmanaged.passUnretained(owner).toOpaque()
        guard unsafe nghttp2_session_client_new2(&made, callbacks, context, option) == 0, let made = unsafe made else {
            return nil
        }
        unsafe handle = unsafe made
        var settings = [
            nghttp2_settings_entry(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0)
        ]
        // Answers are small and many: the connection's window must never be what they wait for.
        guard unsafe nghttp2_submit_settings(handle, 0, &settings, settings.count) == 0,
            unsafe nghttp2_session_set_local_window_size(handle, 0, 0, 16 << 20) == 0
        else { return nil }
    }

    deinit {
        unsafe nghttp2_session_del(handle)
    }

    // Queues a request. The memory that the fields point to must stay until the stream is closed.
    func submit(_ fields: UnsafePointer<nghttp2_nv>, count: Int, slot: Int, hasBody: Bool) -> Submitted {
        let context = unsafe UnsafeMutableRawPointer(bitPattern: slot + 1)
        var provider = unsafe nghttp2_data_provider(
            source: nghttp2_data_source(ptr: context),
            read_callback: readBody
        )
        let id =
            unsafe hasBody
            ? nghttp2_submit_request(handle, nil, fields, count, &provider, context)
            : nghttp2_submit_request(handle, nil, fields, count, nil, context)
        if id >= 0 { return .stream(id) }
        if id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE.rawValue { return .noMoreStreams }
        return .failed(Session.text(id))
    }

    // Frames what is queued and appends it; stops at the buffer's target. An error text when the session is broken.
    func produce(into output: OutputBuffer) -> String? {
        while output.count < OutputBuffer.target {
            var bytes: UnsafePointer<UInt8>?
            let count = unsafe nghttp2_session_mem_send(handle, &bytes)
            if count < 0 { return Session.text(Int32(count)) }
            guard count > 0, let bytes = unsafe bytes else { return nil }
            unsafe output.append(bytes, count: count)
        }
        return nil
    }

    // Takes received bytes; the callbacks run inside. An error text when the session is broken.
    func consume(_ bytes: UnsafePointer<UInt8>, count: Int) -> String? {
        let taken = unsafe nghttp2_session_mem_recv(handle, bytes, count)
        return taken < 0 ? Session.text(Int32(taken)) : nil
    }

    func reset(_ stream: Int32, code: nghttp2_error_code) {
        _ = unsafe nghttp2_submit_rst_stream(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code.rawValue)
    }

    func ping() {
        _ = unsafe nghttp2_submit_ping(handle, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    }

    func sayGoodbye() {
        _ = unsafe nghttp2_session_terminate_session(handle, NGHTTP2_NO_ERROR.rawValue)
    }

    var wantsWrite: Bool { unsafe nghttp2_session_want_write(handle) != 0 }
    // Neither reads nor writes any more: the peer or the protocol ended it.
    var isOver: Bool { unsafe nghttp2_session_want_read(handle) == 0 && nghttp2_session_want_write(handle) == 0 }

    // The streams that the peer allows, as its last SETTINGS say.
    var peerStreamLimit: Int {
        Int(unsafe nghttp2_session_get_remote_settings(handle, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
    }

    static func text(_ code: Int32) -> String {
        unsafe String(cString: nghttp2_strerror(code))
    }
}
