import Glibc

/// The environment variables of this process.
enum ProcessEnvironment {
    /// A copy of all of them.
    static func variables() -> [String: String] {
        var variables: [String: String] = [:]
        var index = 0
        while let entry = unsafe environ[index] {
            let text = unsafe String(cString: entry)
            if let equals = text.firstIndex(of: "=") {
                variables[String(text[..<equals])] = String(text[text.index(after: equals)...])
            }
            index += 1
        }
        return variables
    }
}
