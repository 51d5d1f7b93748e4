/// The words of a command line, matched with what the command declares.
package struct ParsedArguments: Sendable {
    let command: Command
    let positionals: [String: [String]]
    let options: [String: [String]]

    /// The word at a required position.
    package func positional(_ name: String) -> String {
        guard let word = positionals[name]?.first else {
            preconditionFailure("\(command.name) has no required positional \(name)")
        }
        return word
    }

    /// All words at a position: none when it was left out, several when it repeats.
    package func positionals(_ name: String) -> [String] {
        precondition(command.positionals.contains { $0.name == name }, "\(command.name) declares no positional \(name)")
        return positionals[name] ?? []
    }

    /// Whether a flag was given.
    package func flag(_ name: String) -> Bool {
        !values(name).isEmpty
    }

    /// The value of an option, or nil when it was not given.
    package func text(_ name: String) -> String? {
        values(name).last
    }

    /// All values of an option that may be repeated, in the order given.
    package func values(_ name: String) -> [String] {
        precondition(command.options.contains { $0.name == name }, "\(command.name) declares no option --\(name)")
        return options[name] ?? []
    }

    /// The value of an option that the parser has made sure of.
    package func requiredText(_ name: String) -> String {
        guard let value = text(name) else { preconditionFailure("\(command.name): --\(name) is not a required option") }
        return value
    }

    /// The value of an option as a whole number. Throws a usage error that names the range.
    package func integer(_ name: String, in range: ClosedRange<Int>) throws(CommandError) -> Int? {
        guard let text = text(name) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw CommandError(
                .usage,
                "'\(text)' is not a whole number from \(range.lowerBound) to \(range.upperBound)",
                at: "--\(name)"
            )
        }
        return number
    }
}
