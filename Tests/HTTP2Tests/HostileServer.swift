import Glibc
import OpenSSL
import Synchronization
import Threads

/// A TLS server that says whatever bytes it is given after the handshake, whatever HTTP/2 allows.
final class HostileServer: Sendable {
    struct Script: Sendable {
        /// Said at once.
        var greeting: [UInt8] = Wire.settings()
        /// Said when a request is complete.
        var answer: @Sendable (Int) -> [UInt8] = { _ in [] }
        /// Said of each request after the answers of all that came with it.
        var ending: @Sendable (Int) -> [UInt8] = { _ in [] }
        /// Each frame is a TLS record of its own; TCP gathers them, so that a client finds all of them at once.
        var isFrameByFrame = false
        /// Said over and over from the first request on, as fast as the client takes it.
        var flood: [UInt8] = []
        /// Said once after the first request, past TLS, straight into the socket.
        var raw: [UInt8] = []
        /// Ends TCP after the first request, without a word of TLS.
        var hangsUp = false
    }

    let port: UInt16
    let caFile: String
    private let script: Script
    private let listener: Int32
    private let context: TLSContext
    private let directory: String
    private let isStopped = Atomic<Bool>(false)
    private let accepted = Atomic<Int>(0)
    private let end: CountingSemaphore

    init(_ script: Script) throws {
        guard let end = CountingSemaphore() else { throw TestFailure("no eventfd") }
        self.end = end
        self.script = script
        directory = try TemporaryDirectory.make()
        caFile = directory + "/cert.pem"
        let identity = try ServerIdentity(hosts: ["localhost", "127.0.0.1"])
        try TemporaryDirectory.write(identity.certificatePEM, to: caFile)
        context = try TLSContext(serverCertificate: identity.certificatePEM, key: identity.keyPEM)
        port = try FreePort.make()
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
        var on: Int32 = 1
        unsafe setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(listener, $0, size) == 0 }
        }
        guard isBound, listen(listener, 16) == 0 else { throw TestFailure("port \(port) cannot be listened on") }
        guard Thread.start(name: "hostile", { [self] in run() }) == 0 else { throw TestFailure("no thread") }
    }

    /// Ends the server and waits for it.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        end.wait()
        close(listener)
        TemporaryDirectory.remove(directory)
    }

    /// How often a client has connected.
    var connections: Int { accepted.load(ordering: .relaxed) }

    private var goesOn: Bool { !isStopped.load(ordering: .acquiring) }

    private func run() {
        while goesOn {
            _ = wait(listener, POLLIN)
            let socket = accept(listener, nil, nil)
            guard socket >= 0 else { continue }
            accepted.add(1, ordering: .relaxed)
            _ = fcntl(socket, F_SETFL, O_NONBLOCK)
            serve(socket)
            close(socket)
        }
        end.signal()
    }

    /// True when something happened within 20 ms.
    private func wait(_ descriptor: Int32, _ events: Int32) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(events), revents: 0)
        return unsafe poll(&entry, 1, 20) > 0
    }

    private func serve(_ socket: Int32) {
        guard let tls = try? TLSStream(serving: context, socket: socket), shakeHands(tls, socket) else { return }
        var output = script.greeting
        var requests = RequestReader()
        var hasRequest = false
        while goesOn {
            guard read(tls, &requests), write(tls, socket, &output) else { return }
            let complete = requests.takeComplete()
            output += complete.flatMap(script.answer) + complete.flatMap(script.ending)
            if !complete.isEmpty { hasRequest = true }
            if hasRequest, script.hangsUp { return }
            if hasRequest, !script.raw.isEmpty, output.isEmpty {
                _ = unsafe send(socket, script.raw, script.raw.count, Int32(MSG_NOSIGNAL))
                waitForEnd(socket)
                return
            }
            while hasRequest, !script.flood.isEmpty, output.count < 65_536 { output += script.flood }
            _ = wait(socket, output.isEmpty ? POLLIN : POLLIN | POLLOUT)
        }
    }

    /// Reads past TLS until the client hangs up.
    private func waitForEnd(_ socket: Int32) {
        var byte: UInt8 = 0
        while goesOn {
            guard wait(socket, POLLIN) else { continue }
            let count = unsafe recv(socket, &byte, 1, 0)
            if count == 0 || count < 0 && errno != EAGAIN { return }
        }
    }

    private func shakeHands(_ tls: TLSStream, _ socket: Int32) -> Bool {
        while goesOn {
            switch tls.handshake() {
            case .done: return true
            case .wantRead: _ = wait(socket, POLLIN)
            case .wantWrite: _ = wait(socket, POLLOUT)
            case .closed, .failed: return false
            }
        }
        return false
    }

    /// False when the client is gone.
    private func read(_ tls: TLSStream, _ requests: inout RequestReader) -> Bool {
        var chunk = [UInt8](repeating: 0, count: 16_384)
        while true {
            var span = chunk.mutableSpan
            switch tls.read(into: &span) {
            case .done(let count): requests.take(chunk[..<count])
            case .wantRead, .wantWrite: return true
            case .closed, .failed: return false
            }
        }
    }

    /// False when the client is gone.
    private func write(_ tls: TLSStream, _ socket: Int32, _ output: inout [UInt8]) -> Bool {
        if script.isFrameByFrame { cork(socket, true) }
        defer { if script.isFrameByFrame { cork(socket, false) } }
        while !output.isEmpty {
            let size = script.isFrameByFrame ? Wire.frameSize(output[...]) ?? output.count : output.count
            switch tls.write(output.span.extracting(first: size)) {
            case .done(let count): output.removeFirst(count)
            case .wantRead, .wantWrite: return true
            case .closed, .failed: return false
            }
        }
        return true
    }
}

/// What TCP gathers while it is corked goes out at once afterwards.
private func cork(_ socket: Int32, _ isOn: Bool) {
    var value: Int32 = isOn ? 1 : 0
    unsafe setsockopt(socket, Int32(IPPROTO_TCP), TCP_CORK, &value, socklen_t(MemoryLayout<Int32>.size))
}

/// Finds the streams whose requests are complete in what a client sends.
struct RequestReader {
    private var bytes: [UInt8] = []
    private var isPastPreface = false
    private var complete: [Int] = []

    mutating func take(_ received: ArraySlice<UInt8>) {
        bytes += received
        if !isPastPreface, bytes.count >= 24 {
            bytes.removeFirst(24)
            isPastPreface = true
        }
        guard isPastPreface else { return }
        for frame in Wire.takeFrames(&bytes) where frame.type <= 1 && frame.flags & 1 == 1 {
            complete.append(frame.stream)
        }
    }

    mutating func takeComplete() -> [Int] {
        defer { complete = [] }
        return complete
    }
}
