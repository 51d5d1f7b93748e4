import Glibc

/// Reads small files whole: keys, certificates, a content given as `@FILE`.
package enum FileContents {
    /// The bytes of a file, or of standard input for `-`. Throws status 4, naming the file, when it cannot be read or is too long.
    package static func read(_ path: String, limitBytes: Int = 1 << 20) throws(CommandError) -> [UInt8] {
        let descriptor = unsafe path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path) }
        defer { if path != "-" { close(descriptor) } }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count == 0 { return bytes }
            if count < 0 {
                if errno == EINTR { continue }
                throw failure(path)
            }
            bytes += chunk[..<count]
            if bytes.count > limitBytes {
                throw CommandError(.refused, "the file is longer than \(Digits.grouped(limitBytes)) bytes", at: path)
            }
        }
    }

    private static func failure(_ path: String) -> CommandError {
        CommandError(.refused, "cannot read it: \(SystemError.text(errno))", at: path)
    }
}

/// Words for the errors of system calls.
package enum SystemError {
    /// The text for an `errno` value.
    package static func text(_ code: Int32) -> String {
        unsafe String(cString: strerror(code))
    }
}
