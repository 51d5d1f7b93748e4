import Glibc

/// Runs one command line and turns whatever happens into an exit status and a line on standard error.
package enum CommandRunner {
    /// Parses the words after the program's name and runs the command. Never throws; the caller exits with the status.
    @concurrent
    package static func run(root: Command, version: String, words: [String]) async -> ExitStatus {
        // A peer that goes away is an error of one write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        do {
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
        let error = error as? CommandError ?? CommandError(.failure, "\(error)")
        if error.status != .outputClosed { StandardOutput.error("\(program): \(error)") }
        return error.status
    }
}
