import CNghttp2
import Glibc
import OpenSSL

/// A plain HTTP/2 client over one blocking-style connection, for looking at the simulator from outside.
///
/// It shows what came over the wire (SETTINGS, GOAWAY, RST_STREAM) instead of hiding it. Every wait has a deadline.
@safe
final class RawClient {
    /// What came back on a stream so far.
    struct Answer: Equatable {
        var status = 0
        var headers: [String: String] = [:]
        var body: [UInt8] = []
        /// The error code of the stream's end; nil while it is open. 0 is an orderly end.
        var closeCode: UInt32?

        var text: String { String(decoding: body, as: UTF8.self) }
        var isWhole: Bool { closeCode == 0 }
    }

    struct GoAwayFrame: Equatable {
        let lastStream: Int32
        let code: UInt32
        let debug: String
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    fileprivate(set) var answers: [Int32: Answer] = [:]
    fileprivate(set) var goAways: [GoAwayFrame] = []
    /// Values of MAX_CONCURRENT_STREAMS in the order of arrival.
    fileprivate(set) var announcedStreams: [UInt32] = []
    fileprivate(set) var pingAcks = 0
    /// The peer closed the connection; `wasReset` tells a TCP reset from an orderly end.
    private(set) var isClosed = false
    private(set) var wasReset = false

    private let socket: Int32
    private let tls: TLSStream
    private var session: OpaquePointer?
    fileprivate var bodies: [Int32: ArraySlice<UInt8>] = [:]
    fileprivate var nextBody: ArraySlice<UInt8> = []

    init(port: Int, caFile: String, host: String = "localhost", handshakeMilliseconds: Int = 5000) throws {
        _ = Self.ignoresBrokenPipes
        socket = try Self.connect(port: port)
        tls = try TLSStream(context: try TLSContext(trustingAlso: caFile), socket: socket, host: host)
        try handshake(upTo: handshakeMilliseconds)
        try startSession()
        try pump { !self.announcedStreams.isEmpty }
    }

    /// A write to a closed socket is something to see, not a signal that kills the tests.
    private static let ignoresBrokenPipes = signal(SIGPIPE, SIG_IGN)

    deinit {
        unsafe nghttp2_session_del(session)
        close(socket)
    }

    // MARK: Requests

    /// Sends a request; the headers come after the four pseudo headers, in the order given.
    @discardableResult
    func send(
        _ method: String = "POST",
        _ path: String,
        headers: [(String, String)] = [],
        body: String = ""
    ) throws -> Int32 {
        let pseudo = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
        let all = pseudo + headers
        var bytes: [UInt8] = []
        for (name, value) in all { bytes += Array(name.utf8) + Array(value.utf8) }
        let stream = unsafe bytes.withUnsafeMutableBufferPointer { buffer -> Int32 in
            guard let base = buffer.baseAddress else { return -1 }
            var position = 0
            var fields: [nghttp2_nv] = unsafe []
            for (name, value) in all {
                unsafe fields.append(
                    nghttp2_nv(
                        name: base + position,
                        value: base + position + name.utf8.count,
                        namelen: name.utf8.count,
                        valuelen: value.utf8.count,
                        flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue)
                    )
                )
                position += name.utf8.count + value.utf8.count
            }
            guard !body.isEmpty else {
                return unsafe nghttp2_submit_request(session, nil, fields, fields.count, nil, nil)
            }
            var provider = unsafe nghttp2_data_provider(source: nghttp2_data_source(fd: 0), read_callback: onRead)
            return unsafe nghttp2_submit_request(session, nil, fields, fields.count, &provider, nil)
        }
        guard stream > 0 else { throw Failure(description: "the request was not taken: \(stream)") }
        answers[stream] = Answer()
        bodies[stream] = Array(body.utf8)[...]
        try flush()
        return stream
    }

    /// Sends a request and waits until its stream is over.
    func answer(
        _ method: String = "POST",
        _ path: String,
        headers: [(String, String)] = [],
        body: String = ""
    ) throws -> Answer {
        let stream = try send(method, path, headers: headers, body: body)
        return try wait(for: stream)
    }

    /// Waits until a stream is over, or the connection is.
    func wait(for stream: Int32) throws -> Answer {
        try pump { self.answers[stream]?.closeCode != nil || self.isClosed }
        return answers[stream] ?? Answer()
    }

    /// Cancels a stream.
    func cancel(_ stream: Int32) throws {
        unsafe nghttp2_submit_rst_stream(session, 0, stream, NGHTTP2_CANCEL.rawValue)
        try flush()
    }

    /// Sends a request without asking the session whether it may: HEADERS alone, from the static table.
    func sendAgainstTheRules(stream: UInt32) throws {
        try flush()
        let fields: [UInt8] = [0x83, 0x87, 0x84, 0x01, 9] + Array("localhost".utf8)
        let identifier = (0..<4).reversed().map { UInt8(truncatingIfNeeded: stream >> (8 * UInt32($0))) }
        try write([0, 0, UInt8(fields.count), 1, 0x05] + identifier + fields)
    }

    func ping() throws {
        unsafe nghttp2_submit_ping(session, 0, nil)
        try flush()
    }

    // MARK: Input and output

    /// Reads and writes until a condition holds; throws after the time limit.
    func pump(upTo milliseconds: Int = 5000, until condition: () -> Bool) throws {
        let deadline = Self.now() + milliseconds
        while !condition() {
            try flush()
            guard !isClosed else { throw Failure(description: "the connection ended (reset: \(wasReset))") }
            if readSome() { continue }
            let left = deadline - Self.now()
            guard left > 0 else { throw Failure(description: "nothing came in \(milliseconds) ms") }
            waitForSocket(POLLIN, milliseconds: left)
        }
    }

    /// Reads and writes for some time, whatever comes: to see that something does *not* come.
    func listen(milliseconds: Int) throws {
        let deadline = Self.now() + milliseconds
        while !isClosed, Self.now() < deadline {
            try flush()
            if !readSome() { waitForSocket(POLLIN, milliseconds: max(1, deadline - Self.now())) }
        }
    }

    private func readSome() -> Bool {
        var chunk = [UInt8](repeating: 0, count: 16_384)
        var span = chunk.mutableSpan
        switch tls.read(into: &span) {
        case .done(let count):
            let taken = unsafe nghttp2_session_mem_recv(session, chunk, count)
            if taken < 0 { isClosed = true }
            return true
        case .wantRead, .wantWrite:
            return false
        case .closed, .failed:
            wasReset = socketWasReset()
            isClosed = true
            return true
        }
    }

    private func flush() throws {
        var data: UnsafePointer<UInt8>?
        while !isClosed {
            let count = unsafe nghttp2_session_mem_send(session, &data)
            guard count > 0 else { return }
            try unsafe write(Array(UnsafeBufferPointer(start: data, count: count)))
        }
    }

    private func write(_ bytes: [UInt8]) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            switch tls.write(Array(rest).span) {
            case .done(let written): rest = rest.dropFirst(written)
            case .wantRead: waitForSocket(POLLIN, milliseconds: 1000)
            case .wantWrite: waitForSocket(POLLOUT, milliseconds: 1000)
            case .closed, .failed:
                wasReset = socketWasReset()
                isClosed = true
                return
            }
        }
    }

    private func socketWasReset() -> Bool {
        if errno == ECONNRESET { return true }
        var code: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        unsafe getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size)
        return code == ECONNRESET
    }

    private func waitForSocket(_ events: Int32, milliseconds: Int) {
        var entry = pollfd(fd: socket, events: Int16(events), revents: 0)
        _ = unsafe poll(&entry, 1, Int32(milliseconds))
    }

    private static func now() -> Int {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1000 + time.tv_nsec / 1_000_000
    }

    // MARK: Start

    static func connect(port: Int) throws -> Int32 {
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        unsafe inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isConnected = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe Glibc.connect(socket, $0, size) == 0
            }
        }
        guard isConnected else {
            close(socket)
            throw Failure(description: "cannot connect to port \(port)")
        }
        _ = fcntl(socket, F_SETFL, O_NONBLOCK)
        var one: Int32 = 1
        unsafe setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
        return socket
    }

    private func handshake(upTo milliseconds: Int) throws {
        let deadline = Self.now() + milliseconds
        while Self.now() < deadline {
            switch tls.handshake() {
            case .done: return
            case .wantRead: waitForSocket(POLLIN, milliseconds: max(1, deadline - Self.now()))
            case .wantWrite: waitForSocket(POLLOUT, milliseconds: max(1, deadline - Self.now()))
            case .closed: throw Failure(description: "closed in the handshake")
            case .failed(let error): throw error
            }
        }
        throw Failure(description: "the handshake took too long")
    }

    private func startSession() throws {
        var callbacks: OpaquePointer?
        unsafe nghttp2_session_callbacks_new(&callbacks)
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader)
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData)
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame)
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onClose)
        let user = unsafe Unmanaged.passUnretained(self).toOpaque()
        guard unsafe nghttp2_session_client_new(&session, callbacks, user) == 0 else {
            throw Failure(description: "no session")
        }
        unsafe nghttp2_submit_settings(session, 0, nil, 0)
    }
}

private func client(_ user: UnsafeMutableRawPointer?) -> RawClient? {
    guard let user = unsafe user else { return nil }
    return unsafe Unmanaged<RawClient>.fromOpaque(user).takeUnretainedValue()
}

private func text(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> String {
    unsafe String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
}

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
    guard let client = unsafe client(user), let frame = unsafe frame else { return 0 }
    let stream = unsafe frame.pointee.hd.stream_id
    let key = unsafe text(name, nameLength)
    let content = unsafe text(value, valueLength)
    if key == ":status" { client.answers[stream]?.status = Int(content) ?? -1 }
    client.answers[stream]?.headers[key] = content
    return 0
}

private func onData(
    _: OpaquePointer?,
    _: UInt8,
    stream: Int32,
    data: UnsafePointer<UInt8>?,
    length: Int,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let client = unsafe client(user) else { return 0 }
    unsafe client.answers[stream]?.body += Array(UnsafeBufferPointer(start: data, count: length))
    return 0
}

private func onFrame(
    _: OpaquePointer?,
    frame: UnsafePointer<nghttp2_frame>?,
    user: UnsafeMutableRawPointer?
) -> Int32 {
    guard let client = unsafe client(user), let frame = unsafe frame else { return 0 }
    let head = unsafe frame.pointee.hd
    let isAck = UInt32(head.flags) & NGHTTP2_FLAG_ACK.rawValue != 0
    switch UInt32(head.type) {
    case NGHTTP2_SETTINGS.rawValue where !isAck:
        let settings = unsafe frame.pointee.settings
        for index in 0..<(unsafe settings.niv) {
            let entry = unsafe settings.iv[index]
            guard entry.settings_id == Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue) else { continue }
            client.announcedStreams.append(entry.value)
        }
    case NGHTTP2_GOAWAY.rawValue:
        let frame = unsafe frame.pointee.goaway
        client.goAways.append(
            RawClient.GoAwayFrame(
                lastStream: unsafe frame.last_stream_id,
                code: unsafe frame.error_code,
                debug: unsafe text(frame.opaque_data, frame.opaque_data_len)
            )
        )
    case NGHTTP2_PING.rawValue where isAck:
        client.pingAcks += 1
    default: break
    }
    return 0
}

private func onClose(_: OpaquePointer?, stream: Int32, code: UInt32, user: UnsafeMutableRawPointer?) -> Int32 {
    unsafe client(user)?.answers[stream]?.closeCode = code
    return 0
}

private func onRead(
    _: OpaquePointer?,
    stream: Int32,
    buffer: UnsafeMutablePointer<UInt8>?,
    length: Int,
    flags: UnsafeMutablePointer<UInt32>?,
    _: UnsafeMutablePointer<nghttp2_data_source>?,
    user: UnsafeMutableRawPointer?
) -> Int {
    guard let client = unsafe client(user), let buffer = unsafe buffer, let flags = unsafe flags else { return 0 }
    let rest = client.bodies[stream] ?? []
    let piece = rest.prefix(length)
    for (index, byte) in piece.enumerated() { unsafe buffer[index] = byte }
    client.bodies[stream] = rest.dropFirst(piece.count)
    if piece.count == rest.count { unsafe flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
    return piece.count
}
