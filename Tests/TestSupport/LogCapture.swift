import Glibc
package import Telemetry

/// An output of log lines that a test can read back: a file without a name.
package final class LogCapture: Sendable {
    package let output: LogOutput
    private let descriptor: Int32

    package init() throws {
        var path = Array("/tmp/peal-log-XXXXXX".utf8CString)
        descriptor = unsafe mkstemp(&path)
        guard descriptor >= 0 else { throw WaitTimeout("a file for log lines") }
        unsafe unlink(path)
        output = LogOutput(fileDescriptor: descriptor)
    }

    deinit {
        close(descriptor)
    }

    /// All lines so far.
    package var text: String {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = unsafe pread(descriptor, &chunk, chunk.count, bytes.count)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += chunk[..<count]
        }
    }
}
