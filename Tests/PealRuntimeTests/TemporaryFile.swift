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

    deinit {
        unsafe unlink(path)
    }
}
