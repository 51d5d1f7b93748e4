import Glibc
import OpenSSL
import Testing

/// Client and server over a socket pair, pumped in turn on one thread.
@Suite struct TLSTests {
    private final class Pair {
        let client: TLSStream
        let server: TLSStream
        private let sockets: (Int32, Int32)

        init(client: TLSContext, server: TLSContext, host: String, resuming: TLSSession? = nil) throws {
            var ends: [Int32] = [0, 0]
            let code = unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0, &ends)
            #expect(code == 0)
            sockets = (ends[0], ends[1])
            self.client = try TLSStream(context: client, socket: ends[0], host: host, resuming: resuming)
            self.server = try TLSStream(serving: server, socket: ends[1])
        }

        deinit {
            close(sockets.0)
            close(sockets.1)
        }

        /// Both sides' last word after as many turns as a handshake can need.
        func handshake() -> (client: TLSResult, server: TLSResult) {
            var results = (client: TLSResult.wantRead, server: TLSResult.wantRead)
            for _ in 0..<6 {
                if results.client == .wantRead { results.client = client.handshake() }
                if results.server == .wantRead { results.server = server.handshake() }
            }
            return results
        }

        func cutServer() {
            shutdown(sockets.1, Int32(SHUT_RDWR))
        }
    }

    private let identity: ServerIdentity
    private let caFile: TemporaryFile

    init() throws {
        identity = try ServerIdentity(hosts: ["localhost", "127.0.0.1", "::1"])
        caFile = try TemporaryFile(identity.certificatePEM)
    }

    private func serverContext(_ identity: ServerIdentity) throws -> TLSContext {
        try TLSContext(serverCertificate: identity.certificatePEM, key: identity.keyPEM)
    }

    @Test(arguments: ["localhost", "127.0.0.1", "::1"])
    func `a trusted server is accepted by name and by address`(host: String) throws {
        let client = try TLSContext(trustingAlso: caFile.path)
        let pair = try Pair(client: client, server: serverContext(identity), host: host)
        let results = pair.handshake()
        #expect(results.client == .done(0) && results.server == .done(0))
        #expect(pair.client.agreedProtocol == "h2")
    }

    @Test func `bytes go both ways and a goodbye is seen`() throws {
        let client = try TLSContext(trustingAlso: caFile.path)
        let pair = try Pair(client: client, server: serverContext(identity), host: "localhost")
        _ = pair.handshake()
        #expect(pair.client.write([1, 2, 3].span) == .done(3))
        var room = [UInt8](repeating: 0, count: 8)
        var span = room.mutableSpan
        let first = pair.server.read(into: &span)
        let second = pair.server.read(into: &span)
        #expect(first == .done(3) && second == .wantRead)
        #expect(room.prefix(3) == [1, 2, 3])
        pair.client.shutdown()
        var again = room.mutableSpan
        let last = pair.server.read(into: &again)
        #expect(last == .closed)
    }

    @Test func `a peer that is cut off is a closed connection`() throws {
        let client = try TLSContext(trustingAlso: caFile.path)
        let pair = try Pair(client: client, server: serverContext(identity), host: "localhost")
        _ = pair.handshake()
        pair.cutServer()
        var room = [UInt8](repeating: 0, count: 8)
        var span = room.mutableSpan
        let last = pair.client.read(into: &span)
        #expect(last == .closed)
    }

    private func refusal(_ client: TLSContext, _ server: ServerIdentity, host: String) throws -> String {
        let pair = try Pair(client: client, server: serverContext(server), host: host)
        guard case .failed(let error) = pair.handshake().client else { return "accepted" }
        #expect(error.code == .certificateRefused)
        return error.message
    }

    @Test func `an unknown issuer is refused with advice`() throws {
        let message = try refusal(try TLSContext(), identity, host: "localhost")
        #expect(message.contains("certificate of localhost was refused"))
        #expect(message.contains("self-signed certificate") && message.contains("PEAL_CA_FILE"))
    }

    @Test func `a certificate for another host is refused`() throws {
        let message = try refusal(try TLSContext(trustingAlso: caFile.path), identity, host: "api.push.example.com")
        #expect(message.contains("api.push.example.com") && message.lowercased().contains("hostname mismatch"))
    }

    @Test func `an expired certificate is refused`() throws {
        let expired = try ServerIdentity(hosts: ["localhost"], validFor: -60)
        let file = try TemporaryFile(expired.certificatePEM)
        let message = try refusal(try TLSContext(trustingAlso: file.path), expired, host: "localhost")
        #expect(message.contains("expired"))
    }

    @Test func `a CA file that is missing or holds no certificate is named`() throws {
        let missing = #expect(throws: OpenSSLError.self) { try TLSContext(trustingAlso: "/nonexistent/ca.pem") }
        #expect(
            missing?.message.contains("/nonexistent/ca.pem") == true
                && missing?.message.contains("PEAL_CA_FILE") == true
        )
        let file = try TemporaryFile(Array("no certificate".utf8))
        #expect(throws: OpenSSLError.self) { try TLSContext(trustingAlso: file.path) }
    }

    @Test func `a second connection resumes the session of the first`() throws {
        let client = try TLSContext(trustingAlso: caFile.path)
        let server = try serverContext(identity)
        let first = try Pair(client: client, server: server, host: "localhost")
        _ = first.handshake()
        var room = [UInt8](repeating: 0, count: 8)
        var span = room.mutableSpan
        let ticketOnly = first.client.read(into: &span)
        #expect(ticketOnly == .wantRead)
        let session = try #require(first.client.resumableSession())
        let second = try Pair(client: client, server: server, host: "localhost", resuming: session)
        #expect(second.handshake().client == .done(0))
        #expect(second.client.wasResumed && !first.client.wasResumed)
    }

    @Test func `a server's key must fit its certificate`() throws {
        let other = try ServerIdentity(hosts: ["localhost"])
        #expect(throws: OpenSSLError.self) {
            try TLSContext(serverCertificate: identity.certificatePEM, key: other.keyPEM)
        }
    }
}

/// A file that goes away with its object.
final class TemporaryFile {
    let path: String

    init(_ bytes: [UInt8]) throws {
        var template = Array("/tmp/peal-openssl-XXXXXX".utf8CString)
        let descriptor = unsafe mkstemp(&template)
        path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        let written = unsafe write(descriptor, bytes, bytes.count)
        #expect(written == bytes.count)
        close(descriptor)
    }

    deinit {
        unsafe unlink(path)
    }
}
