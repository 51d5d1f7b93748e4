import Glibc

/// The few file operations of the simulator.
enum SimulatorFiles {
    /// Makes a directory if it is not there; returns its path.
    static func ensureDirectory(_ path: String) throws(SimulatorError) -> String {
        guard unsafe mkdir(path, 0o755) == 0 || errno == EEXIST else {
            throw .system(.file, "making the directory \(path)")
        }
        return path
    }

    static func makeTemporaryDirectory() throws(SimulatorError) -> String {
        var template = Array("/tmp/peal-simulator-XXXXXX".utf8CString)
        let made = unsafe template.withUnsafeMutableBufferPointer { buffer -> String? in
            guard let base = buffer.baseAddress, let path = unsafe mkdtemp(base) else { return nil }
            return unsafe String(cString: path)
        }
        guard let made else { throw .system(.file, "making a directory under /tmp") }
        // Workers under test may run as another user and must be able to read ca.pem.
        guard unsafe chmod(made, 0o755) == 0 else { throw .system(.file, "opening up the directory \(made)") }
        return made
    }

    /// Writes a whole file, replacing what was there.
    static func write(_ text: String, to path: String, mode: mode_t) throws(SimulatorError) {
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw .system(.file, "writing \(path)") }
        defer { close(descriptor) }
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else {
                if errno == EINTR { continue }
                throw .system(.file, "writing \(path)")
            }
            rest = rest.dropFirst(count)
        }
    }

    /// Reads a whole file of at most 16 MiB.
    static func read(_ path: String) throws(SimulatorError) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system(.file, "opening \(path)") }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .system(.file, "reading \(path)") }
            guard count > 0 else { return bytes }
            bytes += chunk[..<count]
            guard bytes.count <= 16_777_216 else {
                throw SimulatorError(code: .file, context: "\(path) is larger than 16 MiB")
            }
        }
    }

    static func copy(_ source: String, to target: String) throws(SimulatorError) {
        let text = String(decoding: try read(source), as: UTF8.self)
        try write(text, to: target, mode: 0o644)
    }

    /// Removes the directory of a simulator: `ca.pem` and the directory itself.
    static func removeDirectory(_ path: String) {
        unsafe unlink(path + "/ca.pem")
        unsafe rmdir(path)
    }
}
