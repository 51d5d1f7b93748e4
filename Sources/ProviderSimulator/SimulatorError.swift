import Glibc

/// Why the simulator could not start or could not read what it was given.
package struct SimulatorError: Error, Sendable, CustomStringConvertible {
    /// What kind of fault it is; tests compare this, people read `description`.
    package enum Code: Sendable, Hashable {
        /// An address or port that is none.
        case address
        case socket
        case certificate
        case key
        case file
        case control
        case thread
        case session
    }

    package let code: Code
    /// What was being done, with what, and what to do next.
    package let context: String

    package var description: String { "simulator: \(context)" }

    /// A fault of a system call, with the text of `errno`.
    static func system(_ code: Code, _ doing: String, errno number: Int32 = Glibc.errno) -> SimulatorError {
        SimulatorError(code: code, context: "\(doing): \(systemErrorText(number))")
    }
}

/// The text of an `errno` value.
func systemErrorText(_ number: Int32) -> String {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
        guard let base = buffer.baseAddress, unsafe strerror_r(number, base, buffer.count) == 0 else {
            return "error \(number)"
        }
        return unsafe String(cString: base)
    }
}
