import Glibc

/// The few things that a private cluster does with files. All are short.
enum FileSystem {
    static func exists(_ path: String) -> Bool {
        unsafe access(path, F_OK) == 0
    }

    /// The names in a directory, without `.` and `..`; empty when it cannot be read.
    static func names(in path: String) -> [String] {
        guard let directory = unsafe opendir(path) else { return [] }
        defer { unsafe closedir(directory) }
        var names: [String] = []
        while let entry = unsafe readdir(directory) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                unsafe String(cString: UnsafeRawPointer(pointer).assumingMemoryBound(to: CChar.self))
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names
    }

    /// The beginning of a file, up to 64 KiB; nil when it cannot be read.
    static func text(of path: String) -> String? {
        text(of: path, endOnly: false)
    }

    /// The end of a file, up to 64 KiB; nil when it cannot be read.
    static func end(of path: String) -> String? {
        text(of: path, endOnly: true)
    }

    private static func text(of path: String, endOnly: Bool) -> String? {
        let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 65536)
        // Fails in a shorter file, which is then read from its beginning.
        if endOnly { lseek(file, -off_t(bytes.count), SEEK_END) }
        let count = unsafe read(file, &bytes, bytes.count)
        return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
    }

    /// Makes a directory, and those above it, that only its owner may enter; one that is there is left as it is.
    static func makeDirectory(_ path: String) throws(PostgresError) {
        if exists(path) { return }
        if let slash = path.lastIndex(of: "/"), slash != path.startIndex {
            try makeDirectory(String(path[..<slash]))
        }
        guard unsafe mkdir(path, 0o700) != 0, errno != EEXIST else { return }
        throw failure("make the directory \(path)")
    }

    /// Makes a directory with a new name in /tmp, that only its owner may enter.
    static func makeTemporaryDirectory(prefix: String) throws(PostgresError) -> String {
        var template = Array("/tmp/\(prefix)XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw failure("make a directory in /tmp") }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    static func rename(_ path: String, to newPath: String) throws(PostgresError) {
        guard unsafe Glibc.rename(path, newPath) != 0 else { return }
        throw failure("rename \(path)")
    }

    static func remove(_ path: String) throws(PostgresError) {
        guard unsafe unlink(path) != 0, errno != ENOENT else { return }
        throw failure("remove \(path)")
    }

    /// Removes a directory and all in it.
    static func removeTree(_ path: String) throws(PostgresError) {
        let status = try ChildProcess.run(["rm", "-rf", "--", path], outputPath: "/dev/null", within: .seconds(60))
        guard status != 0 else { return }
        throw PostgresError(.cluster, activity: "remove \(path)", message: "rm ended with status \(status)")
    }

    private static func failure(_ activity: String) -> PostgresError {
        PostgresError(.cluster, activity: activity, message: SystemError.text(errno))
    }
}
