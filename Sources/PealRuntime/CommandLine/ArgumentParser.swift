/// Turns the words of a command line into a command and its arguments.
package struct ArgumentParser: Sendable {
    /// What the words ask for.
    package enum Request: Sendable {
        case run(Command, ParsedArguments)
        /// Help for a command; `path` is the words that lead to it, the program's name first.
        case help(Command, path: [String])
        case version
    }

    private let root: Command

    /// A parser for the commands below `root`.
    package init(root: Command) {
        self.root = root
    }

    /// Reads the words after the program's name. Throws a usage error that names the word and the nearest known one.
    package func parse(_ words: [String]) throws(CommandError) -> Request {
        var command = root
        var path = [root.name]
        var rest = words[...]
        if rest.first == "help" { rest = rest.dropFirst() + ["--help"] }
        while command.body == nil {
            guard let word = rest.popFirst() else {
                if path.count == 1 { return .help(command, path: path) }
                throw missingCommand(below: command, path: path)
            }
            if Self.asksForHelp(word) { return .help(command, path: path) }
            if word == "--version", command.name == root.name { return .version }
            guard let next = command.subcommands.first(where: { $0.name == word }) else {
                throw unknownCommand(word, below: command, path: path)
            }
            command = next
            path.append(word)
        }
        var reader = WordReader(command: command, path: path)
        while let word = rest.popFirst() {
            if !reader.optionsHaveEnded, Self.asksForHelp(word) { return .help(command, path: path) }
            try reader.read(word, from: &rest)
        }
        return .run(command, try reader.finish())
    }

    private static func asksForHelp(_ word: String) -> Bool {
        word == "--help" || word == "-h"
    }

    private func missingCommand(below command: Command, path: [String]) -> CommandError {
        let names = command.subcommands.map(\.name).joined(separator: ", ")
        let words = path.joined(separator: " ")
        return CommandError(.usage, "one of \(names) is missing", at: words, advice: "See \(words) --help")
    }

    private func unknownCommand(_ word: String, below command: Command, path: [String]) -> CommandError {
        let names = command.subcommands.map(\.name)
        let guess = NearestName.of(word, among: names).map { "Did you mean '\($0)'? " } ?? ""
        let kind = word.hasPrefix("-") ? "option" : "command"
        return CommandError(
            .usage,
            "unknown \(kind) '\(word)'",
            at: path.joined(separator: " "),
            advice: "\(guess)See \(path.joined(separator: " ")) --help"
        )
    }
}

/// Collects the options and positionals of one command, word by word.
private struct WordReader {
    let command: Command
    let path: [String]
    private(set) var optionsHaveEnded = false
    private var words: [String] = []
    private var options: [String: [String]] = [:]

    init(command: Command, path: [String]) {
        self.command = command
        self.path = path
    }

    mutating func read(_ word: String, from rest: inout ArraySlice<String>) throws(CommandError) {
        if optionsHaveEnded || !word.hasPrefix("-") || word == "-" {
            words.append(word)
        } else if word == "--" {
            optionsHaveEnded = true
        } else {
            try readOption(word, from: &rest)
        }
    }

    private mutating func readOption(_ word: String, from rest: inout ArraySlice<String>) throws(CommandError) {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let typed = String(parts[0])
        guard let option = command.options.first(where: { "--\($0.name)" == typed }) else {
            throw unknownOption(typed)
        }
        let value: String
        if option.placeholder == nil {
            guard parts.count == 1 else { throw usage("takes no value", at: typed) }
            value = ""
        } else if parts.count == 2 {
            value = String(parts[1])
        } else if let next = rest.first, !next.hasPrefix("--") {
            value = next
            rest.removeFirst()
        } else {
            throw usage("needs a value \(option.placeholder ?? "")", at: typed)
        }
        if !option.choices.isEmpty, !option.choices.contains(value) {
            throw usage("'\(value)' is none of \(option.choices.joined(separator: ", "))", at: typed)
        }
        if !option.isRepeated, options[option.name] != nil, option.placeholder != nil {
            throw usage("given twice", at: typed)
        }
        options[option.name, default: []].append(value)
    }

    func finish() throws(CommandError) -> ParsedArguments {
        var positionals: [String: [String]] = [:]
        var rest = words[...]
        for positional in command.positionals {
            if positional.isRepeated {
                positionals[positional.name] = Array(rest)
                rest = []
            } else if let word = rest.popFirst() {
                positionals[positional.name] = [word]
            }
            if positional.isRequired, (positionals[positional.name] ?? []).isEmpty {
                throw usage("\(positional.name) is missing", at: path.joined(separator: " "))
            }
        }
        if let extra = rest.first { throw usage("'\(extra)' is one word too many", at: path.joined(separator: " ")) }
        for option in command.options where option.isRequired && options[option.name] == nil {
            throw usage("--\(option.name) is missing", at: path.joined(separator: " "))
        }
        return ParsedArguments(command: command, positionals: positionals, options: options)
    }

    private func unknownOption(_ typed: String) -> CommandError {
        let names = command.options.map { "--\($0.name)" } + ["--help"]
        let guess = NearestName.of(typed, among: names).map { "Did you mean \($0)? " } ?? ""
        return CommandError(
            .usage,
            "unknown option \(typed)",
            at: path.joined(separator: " "),
            advice: "\(guess)See \(path.joined(separator: " ")) --help"
        )
    }

    private func usage(_ what: String, at location: String) -> CommandError {
        CommandError(.usage, what, at: location, advice: "See \(path.joined(separator: " ")) --help")
    }
}
