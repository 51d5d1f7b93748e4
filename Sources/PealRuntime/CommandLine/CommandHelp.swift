/// Writes the help text of a command or a group.
package enum CommandHelp {
    /// The text that `--help` prints, with a final newline. `path` is the words that lead to the command.
    package static func text(for command: Command, path: [String]) -> String {
        let words = path.joined(separator: " ")
        var text = "\(words): \(command.summary)\n\nUsage: \(words)\(usage(of: command))\n"
        if !command.discussion.isEmpty { text += "\n\(command.discussion)\n" }
        text += section("Commands", command.subcommands.map { ($0.name, $0.summary) })
        text += section("Arguments", command.positionals.map { ($0.name, $0.help) })
        let options = command.options.map { (label(of: $0), help(of: $0)) }
        text += section("Options", command.body == nil ? [] : options + [("--help", "show this text")])
        text += section("Examples", command.examples.map { ($0.line, $0.effect) }, stacked: true)
        if command.body == nil { text += "\nSee \(words) COMMAND --help for each of them.\n" }
        return text
    }

    private static func usage(of command: Command) -> String {
        if command.body == nil { return " COMMAND" }
        let required = command.options.filter(\.isRequired).map { " \(label(of: $0))" }
        let words = command.positionals.map { positional in
            let name = positional.isRepeated ? "\(positional.name)..." : positional.name
            return positional.isRequired ? " \(name)" : " [\(name)]"
        }
        let optional = command.options.contains { !$0.isRequired } ? [" [options]"] : []
        return (words + required + optional).joined()
    }

    private static func label(of option: Option) -> String {
        option.placeholder.map { "--\(option.name) \($0)" } ?? "--\(option.name)"
    }

    private static func help(of option: Option) -> String {
        var text = option.help
        if !option.choices.isEmpty { text += " (\(option.choices.joined(separator: ", ")))" }
        if option.isRepeated { text += "; may be given several times" }
        if option.isRequired { text += "; required" }
        return text
    }

    private static func section(_ title: String, _ rows: [(String, String)], stacked: Bool = false) -> String {
        guard !rows.isEmpty else { return "" }
        let width = rows.map(\.0.count).max() ?? 0
        let lines = rows.map { label, help in
            if stacked { return "  \(label)\n      \(help)\n" }
            return "  \(label)\(String(repeating: " ", count: width - label.count))  \(help)\n"
        }
        return "\n\(title):\n\(lines.joined())"
    }
}
