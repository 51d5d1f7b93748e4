import Glibc

/// A CSV file of what an import has to say about rows. An earlier report is emptied by the first `flush`, not before: an
/// import that never begins leaves it.
package final class ImportReport {
    private let path: String
    private let descriptor: Int32
    /// The file was not there before.
    private let isNew: Bool
    private var hasBegun = false
    private var buffer = Array("line,what,reason\n".utf8)

    /// Opens the file. Throws status 4 when it cannot be written, or is the file at `inputPath` (`-` for standard input)
    /// under whatever name.
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
        let made = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        isNew = made >= 0
        descriptor = unsafe isNew ? made : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandError(.refused, "cannot write it: \(SystemError.text(errno))", at: path)
        }
    }

    deinit {
        close(descriptor)
        if isNew, !hasBegun { unsafe unlink(path) }
    }

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

    /// Writes what is left; the first time the header and in place of what the file held.
    package func flush() throws(CommandError) {
        if !hasBegun { try begin() }
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

    /// Empties a regular file; a pipe or a terminal has nothing to empty.
    private func begin() throws(CommandError) {
        var info = stat()
        let isRegular = unsafe fstat(descriptor, &info) == 0 && info.st_mode & S_IFMT == S_IFREG
        guard !isRegular || ftruncate(descriptor, 0) == 0 else {
            throw CommandError(.failure, "cannot empty it: \(SystemError.text(errno))", at: path)
        }
        hasBegun = true
    }
}
