import Glibc

/// The standard streams of a command: output for what was asked, error for everything else.
package enum StandardOutput {
    /// Writes to standard output. Throws status 141 when the reader has closed it, so that `peal … | head` ends quietly.
    package static func write(_ text: String) throws(CommandError) {
        let bytes = Array(text.utf8)
        try write(bytes[...])
    }

    /// Writes one line for people to standard output: what could steer a terminal or break the line is a space.
    package static func line(_ text: String) throws(CommandError) {
        try write(TerminalText.line(text) + "\n")
    }

    /// Writes a JSON object and a newline to standard output, its texts escaped and otherwise as they are.
    package static func object(_ members: [(String, Cell)]) throws(CommandError) {
        try write(JSONLine.object(members) + "\n")
    }

    /// Writes one line to standard error: what could steer a terminal or break the line is a space. What cannot be written there is lost: there is nowhere else to say so.
    package static func error(_ text: String) {
        errorText(TerminalText.line(text) + "\n")
    }

    /// Writes text to standard error as it is, for progress that redraws its line.
    package static func errorText(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let written = unsafe rest.withUnsafeBytes { unsafe Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
            if written < 0, errno != EINTR { return }
            rest = rest.dropFirst(max(0, written))
        }
    }

    /// Whether standard output is a terminal.
    package static var isTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Whether standard error is a terminal: progress is drawn there.
    package static var errorIsTerminal: Bool { isatty(STDERR_FILENO) == 1 }

    /// How many columns the terminal on standard error has; nil where there is none, or where it does not say.
    package static var errorColumns: Int? {
        var size = winsize()
        guard unsafe ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    private static func write(_ bytes: ArraySlice<UInt8>) throws(CommandError) {
        var rest = bytes
        while !rest.isEmpty {
            let written = unsafe rest.withUnsafeBytes { unsafe Glibc.write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            if written >= 0 {
                rest = rest.dropFirst(written)
            } else if errno == EPIPE {
                throw CommandError(.outputClosed, "")
            } else if errno != EINTR {
                let reason = SystemError.text(errno)
                throw CommandError(.failure, "cannot write: \(reason)", at: "standard output")
            }
        }
    }
}
