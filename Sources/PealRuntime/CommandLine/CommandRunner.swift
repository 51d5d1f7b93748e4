import Glibc
import Postgres

/// Runs one command line and turns whatever happens into an exit status and a line on standard error.
package enum CommandRunner {
    /// Parses the words after the program's name and runs the command. Never throws; the caller exits with the status.
    @concurrent
    package static func run(root: Command, version: String, words: [String]) async -> ExitStatus {
        // A peer that goes away is an error of one write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        do {
            if let word = words.first(where: { $0.unicodeScalars.contains("\u{FFFD}") }) {
                // What is not UTF-8 has come this far only with its bytes lost.
                throw CommandError(.usage, "a word of the command line is not UTF-8", at: "'\(word)'")
            }
            switch try ArgumentParser(root: root).parse(words) {
            case .help(let command, let path):
                try StandardOutput.write(CommandHelp.text(for: command, path: path))
                return .success
            case .version:
                try StandardOutput.line("\(root.name) \(version)")
                return .success
            case .run(let command, let arguments):
                guard let body = command.body else { preconditionFailure("parsed a group: \(command.name)") }
                return try await body(arguments)
            }
        } catch {
            return report(error, program: root.name)
        }
    }

    private static func report(_ error: any Error, program: String) -> ExitStatus {
        let error = CommandError(describing: error)
        if error.status != .outputClosed { StandardOutput.error("\(program): \(error)") }
        return error.status
    }
}

extension CommandError {
    /// The failure that ends the command when something threw: the server's refusals keep their words.
    package init(describing error: any Error) {
        switch error {
        case let error as CommandError: self = error
        case let error as PostgresError: self.init(describing: error)
        case let error as DeviceImport.Failure: self.init(describing: error.underlying)
        default: self.init(.failure, "\(error)")
        }
    }

    private init(describing error: PostgresError) {
        let unreachable: [PostgresError.Code] = [.connection, .deadline, .poolExhausted, .configuration, .closed]
        if unreachable.contains(error.code) || error.closesConnection {
            self.init(
                .databaseUnreachable,
                "could not \(error.activity)",
                at: error.message,
                advice: Self.unreachableAdvice
            )
        } else if error.sqlState?.classCode == "42", error.message.hasPrefix("permission denied") {
            let advice = "GRANT peal_worker TO the database user; 'peal migrate' needs the owner of the database"
            self.init(.failure, "could not \(error.activity)", at: error.message, advice: advice)
        } else if error.code == .schema {
            self.init(.failure, "could not \(error.activity)", at: error.message, advice: error.hint ?? "")
        } else if let state = error.sqlState, Self.refusalClasses.contains(state.classCode) {
            self.init(.refused, error.message, at: error.detail ?? "", advice: error.hint ?? "")
        } else {
            self.init(.failure, error.description)
        }
    }

    static let unreachableAdvice = "check PEAL_DATABASE_URL and that the server is up; 'peal doctor' looks closer"

    /// Data exceptions, violated constraints, no data found, and errors raised by functions: the input is at fault.
    private static let refusalClasses: Set<String> = ["02", "22", "23", "P0"]
}
