import Glibc

/// A CSV file of the rows that an import refused or merged.
package final class ImportReport {
    private let path: String
    private let descriptor: Int32
    private var buffer = Array("line,what,reason\n".utf8)

    /// Makes the file, or empties it. Throws status 4 when it cannot be written, and before anything is emptied when it
    /// is the file at `inputPath` (`-` for standard input), under whatever name.
    package init(path: String, inputPath: String) throws(CommandError) {
        if Self.isSameFile(path, inputPath) {
            throw CommandError(
                .refused,
                "the report would replace the file that is imported",
                at: "--report \(path)",
                advice: "name another file"
            )
        }
        self.path = path
        descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandError(.refused, "cannot write it: \(SystemError.text(errno))", at: path)
        }
    }

    deinit { close(descriptor) }

    /// Whether both lead to one regular file. What is not there is nothing that could be lost.
    private static func isSameFile(_ path: String, _ inputPath: String) -> Bool {
        var report = stat()
        var input = stat()
        guard unsafe stat(path, &report) == 0, report.st_mode & S_IFMT == S_IFREG else { return false }
        guard unsafe inputPath == "-" ? fstat(STDIN_FILENO, &input) == 0 : stat(inputPath, &input) == 0 else {
            return false
        }
        return report.st_dev == input.st_dev && report.st_ino == input.st_ino
    }

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
