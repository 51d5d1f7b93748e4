import Glibc

/// A CSV file of the rows that an import refused or merged.
package final class ImportReport {
    private let path: String
    private let descriptor: Int32
    private var buffer = Array("line,what,reason\n".utf8)

    /// Makes the file, or empties it. Throws status 4 when it cannot be written.
    package init(path: String) throws(CommandError) {
        self.path = path
        descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandError(.refused, "cannot write it: \(SystemError.text(errno))", at: path)
        }
    }

    deinit { close(descriptor) }

    /// Adds a row.
    package func add(_ notice: ImportNotice) throws(CommandError) {
        buffer += RowPrinter.csvLine([String(notice.line), notice.kind.rawValue, notice.reason]).utf8
        if buffer.count >= 65_536 { try flush() }
    }

    /// Writes what is left.
    package func flush() throws(CommandError) {
        var rest = buffer[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno != EINTR {
                throw CommandError(.failure, "cannot write on: \(SystemError.text(errno))", at: path)
            }
            rest = rest.dropFirst(max(0, count))
        }
        buffer.removeAll(keepingCapacity: true)
    }
}
