import Glibc
import Synchronization

/// Where log lines go: one file descriptor, written to one whole line at a time.
package final class LogOutput: Sendable {
    /// Standard error.
    package static let standardError = LogOutput(fileDescriptor: STDERR_FILENO)

    private let fileDescriptor: Int32
    // Held while a line is written, so that lines of several threads never mix. The buffer is kept between lines.
    private let buffer = Mutex<[UInt8]>([])

    /// Writes to a descriptor that stays open, and belongs to the caller, for as long as this value lives.
    package init(fileDescriptor: Int32) {
        self.fileDescriptor = fileDescriptor
    }

    /// Lets `compose` fill the buffer, and writes it.
    func writeLine(_ compose: (inout [UInt8]) -> Void) {
        buffer.withLock { line in
            line.removeAll(keepingCapacity: true)
            compose(&line)
            line.append(UInt8(ascii: "\n"))
            write(line)
        }
    }

    /// A log that cannot be written has nowhere to say so: what the descriptor refuses is lost.
    private func write(_ line: [UInt8]) {
        var offset = 0
        while offset < line.count {
            let written = unsafe line.withUnsafeBytes { bytes in
                unsafe Glibc.write(fileDescriptor, bytes.baseAddress?.advanced(by: offset), bytes.count - offset)
            }
            if written > 0 {
                offset += written
            } else if written == 0 || errno != EINTR {
                return
            }
        }
    }
}
