import Glibc
import OpenSSL

/// A running `nghttpd`: a server that shares no code with us. It ends with this object.
final class NghttpdServer {
    let port: UInt16
    let caFile: String
    private let directory: String
    private let process: pid_t

    init(streams: Int = 100, options: [String] = []) throws {
        port = try FreePort.make()
        directory = try TemporaryDirectory.make()
        let identity = try ServerIdentity(hosts: ["localhost", "127.0.0.1"])
        caFile = directory + "/cert.pem"
        try TemporaryDirectory.write(identity.certificatePEM, to: caFile)
        try TemporaryDirectory.write(identity.keyPEM, to: directory + "/key.pem")
        try TemporaryDirectory.write(Array("hello".utf8), to: directory + "/file")
        process = try NghttpdServer.spawn(
            ["nghttpd", "-m", "\(streams)", "-d", directory] + options
                + ["\(port)", directory + "/key.pem", caFile]
        )
    }

    deinit {
        kill(process, SIGKILL)
        waitpid(process, nil, 0)
        TemporaryDirectory.remove(directory)
    }

    private static func spawn(_ arguments: [String]) throws -> pid_t {
        var pointers = unsafe arguments.map { unsafe strdup($0) } + [nil]
        defer { unsafe pointers.forEach { unsafe free($0) } }
        var process: pid_t = 0
        let code = unsafe posix_spawnp(&process, "nghttpd", nil, nil, &pointers, environ)
        guard code == 0 else { throw TestFailure("nghttpd does not start: errno \(code)") }
        return process
    }
}

struct TestFailure: Error {
    let message: String

    init(_ message: String) { self.message = message }
}

enum FreePort {
    /// A port that nobody listens on now.
    static func make() throws -> UInt16 {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                unsafe bind(listener, generic, size) == 0 ? getsockname(listener, generic, &size) : -1
            }
        }
        guard code == 0 else { throw TestFailure("no free port") }
        return UInt16(bigEndian: address.sin_port)
    }
}

enum TemporaryDirectory {
    static func make() throws -> String {
        var template = Array("/tmp/peal-http2-XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw TestFailure("no temporary directory") }
        return String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    static func write(_ bytes: [UInt8], to path: String) throws {
        guard let file = unsafe fopen(path, "w") else { throw TestFailure("\(path) cannot be written") }
        _ = unsafe fwrite(bytes, 1, bytes.count, file)
        unsafe fclose(file)
    }

    static func remove(_ path: String) {
        _ = ["cert.pem", "key.pem", "file"].map { unsafe unlink(path + "/" + $0) }
        _ = unsafe rmdir(path)
    }
}

/// How many descriptors this process has open.
func openDescriptors() -> Int {
    (0..<4096).count { fcntl(Int32($0), F_GETFD) >= 0 }
}
