/// One command of `peal`, or a group of commands: its words, its options, its help, and what it runs.
package struct Command: Sendable {
    /// What a command runs; the status it returns is the process's.
    package typealias Body = @Sendable (ParsedArguments) async throws -> ExitStatus

    /// The word that is typed, such as `import`.
    package let name: String
    /// One line in lower case, without a period.
    package let summary: String
    /// More about it, shown by `--help` under the usage line.
    package let discussion: String
    /// The words that it takes by position.
    package let positionals: [Positional]
    /// The options that it takes, in the order of the help text.
    package let options: [Option]
    /// Lines that work when they are typed.
    package let examples: [Example]
    /// The commands below, for a group.
    package let subcommands: [Command]
    let body: Body?

    /// A command that runs something.
    package init(
        _ name: String,
        summary: String,
        discussion: String = "",
        positionals: [Positional] = [],
        options: [Option] = [],
        examples: [Example],
        run body: @escaping Body
    ) {
        let optional = positionals.firstIndex { !$0.isRequired } ?? positionals.count
        precondition(
            positionals[optional...].allSatisfy { !$0.isRequired },
            "\(name): required after optional positional"
        )
        self.name = name
        self.summary = summary
        self.discussion = discussion
        self.positionals = positionals
        self.options = options
        self.examples = examples
        self.subcommands = []
        self.body = body
    }

    /// A group: it only leads to other commands.
    package init(group name: String, summary: String, discussion: String = "", _ subcommands: [Command]) {
        self.name = name
        self.summary = summary
        self.discussion = discussion
        self.positionals = []
        self.options = []
        self.examples = []
        self.subcommands = subcommands
        self.body = nil
    }
}

/// A word that a command takes by its position.
package struct Positional: Sendable {
    let name: String
    let help: String
    let isRequired: Bool
    let isRepeated: Bool

    /// A word; `name` is in capitals as the usage line shows it. Only the last may be repeated.
    package init(_ name: String, _ help: String, isRequired: Bool = true, isRepeated: Bool = false) {
        self.name = name
        self.help = help
        self.isRequired = isRequired
        self.isRepeated = isRepeated
    }
}

/// An option, `--name VALUE`, `--name=VALUE`, or `--name` alone for a flag.
package struct Option: Sendable {
    let name: String
    let placeholder: String?
    let help: String
    let choices: [String]
    let isRepeated: Bool
    let isRequired: Bool

    /// An option with a value. `placeholder` is in capitals; with `choices` any other value is refused.
    package init(
        _ name: String,
        _ placeholder: String,
        _ help: String,
        choices: [String] = [],
        isRepeated: Bool = false,
        isRequired: Bool = false
    ) {
        self.name = name
        self.placeholder = placeholder
        self.help = help
        self.choices = choices
        self.isRepeated = isRepeated
        self.isRequired = isRequired
    }

    /// A flag: given or not.
    package init(flag name: String, _ help: String) {
        self.name = name
        self.placeholder = nil
        self.help = help
        self.choices = []
        self.isRepeated = false
        self.isRequired = false
    }
}

/// A command line that works, and what it does.
package struct Example: Sendable {
    let line: String
    let effect: String

    /// The line without a prompt, and what it does in a few words.
    package init(_ line: String, _ effect: String) {
        self.line = line
        self.effect = effect
    }
}
