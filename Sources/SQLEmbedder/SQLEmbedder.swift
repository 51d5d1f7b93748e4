import Glibc

/// Writes a Swift file that holds the text of files: `SQLEmbedder OUTPUT FILE…`. Run by the plugin EmbedSQL.
@main
struct SQLEmbedder {
    static func main() {
        let arguments = CommandLine.arguments.dropFirst()
        guard let output = arguments.first else { fail("no output file was named") }
        var source = "/// The SQL files, by name with every character that no identifier may hold as an underscore.\n"
        source += "enum PackageResources {\n"
        for path in arguments.dropFirst() {
            source += "    static let \(identifier(path)): StaticString = \(literal(read(path)))\n"
        }
        source += "}\n"
        write(source, to: output)
    }

    /// `…/0001_create.sql` as `_001_create_sql`.
    private static func identifier(_ path: String) -> String {
        let name = path.split(separator: "/").last.map(String.init) ?? path
        let characters = name.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" }
        return String(characters.first.map { $0.isNumber ? "_" : $0 } ?? "_") + String(characters.dropFirst())
    }

    private static func literal(_ text: String) -> String {
        var literal = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": literal += "\\\\"
            case "\"": literal += "\\\""
            case "\n": literal += "\\n"
            case "\r": literal += "\\r"
            case "\t": literal += "\\t"
            default: literal.unicodeScalars.append(scalar)
            }
        }
        return literal + "\""
    }

    private static func read(_ path: String) -> String {
        guard let file = unsafe fopen(path, "r") else { fail("cannot read \(path)") }
        defer { unsafe fclose(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe fread(&chunk, 1, chunk.count, file)
            if count == 0 { break }
            bytes += chunk[..<count]
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { fail("\(path) is not UTF-8") }
        return text
    }

    private static func write(_ text: String, to path: String) {
        guard let file = unsafe fopen(path, "w") else { fail("cannot write \(path)") }
        guard unsafe fputs(text, file) >= 0, unsafe fclose(file) == 0 else { fail("cannot write \(path)") }
    }

    private static func fail(_ message: String) -> Never {
        let line = Array("SQLEmbedder: \(message)\n".utf8)
        _ = unsafe Glibc.write(STDERR_FILENO, line, line.count)
        exit(1)
    }
}
