import Glibc
import PealRuntime
import PushCore

/// A file of one test, removed with it.
final class TemporaryFile {
    let path: String

    convenience init(_ text: String) throws {
        try self.init(bytes: Array(text.utf8))
    }

    init(bytes: [UInt8]) throws {
        path = "/tmp/peal-test-\(UUIDValue.random()).csv"
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        guard descriptor >= 0 else { throw CommandError(.failure, "cannot make \(path)") }
        defer { close(descriptor) }
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { throw CommandError(.failure, "cannot write \(path)") }
            rest = rest.dropFirst(count)
        }
    }

    /// What the file holds now, of its first 64 KiB.
    func text() throws -> String {
        let descriptor = unsafe open(path, O_RDONLY)
        guard descriptor >= 0 else { throw CommandError(.failure, "cannot read \(path)") }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }

    deinit {
        unsafe unlink(path)
    }
}
