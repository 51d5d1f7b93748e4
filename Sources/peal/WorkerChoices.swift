import PealRuntime
import PushCore

/// What the options that `worker` and `up` share ask for, checked before anything is begun.
struct WorkerChoices {
    private let roles: Set<WorkerRole>?
    private let lanes: Set<Lane>?
    private let drainLimit: Duration?

    /// Reads the options. Throws a usage error that names the one at fault.
    init(_ arguments: ParsedArguments) throws(CommandError) {
        roles = try Self.words(arguments, "roles", among: WorkerRole.allCases.map(\.rawValue)) {
            WorkerRole(rawValue: $0)
        }
        lanes = try Self.words(arguments, "lanes", among: Lane.allCases.map(\.name)) { Lane(name: $0) }
        if let roles, lanes != nil, !roles.contains(.delivery) {
            throw CommandError(
                .usage,
                "--lanes means nothing without the role delivery",
                at: "--roles",
                advice: "add delivery to --roles, or leave --lanes out"
            )
        }
        drainLimit = try arguments.integer("drain", in: 0...600).map { .seconds($0) }
    }

    /// Changes what was asked for, and leaves the rest as it is.
    func apply(to configuration: inout WorkerConfiguration) {
        if let roles { configuration.roles = roles }
        if let lanes { configuration.lanes = lanes }
        if let drainLimit { configuration.drainLimit = drainLimit }
    }

    /// The values of a comma-separated list, at least one; nil when the option was not given.
    private static func words<Value: Hashable>(
        _ arguments: ParsedArguments,
        _ option: String,
        among known: [String],
        _ value: (String) -> Value?
    ) throws(CommandError) -> Set<Value>? {
        guard let list = arguments.text(option) else { return nil }
        let choice = known.joined(separator: ", ")
        var values: Set<Value> = []
        for word in list.split(separator: ",") {
            guard let value = value(String(word)) else {
                throw CommandError(.usage, "'\(word)' is none of \(choice)", at: "--\(option)")
            }
            values.insert(value)
        }
        guard !values.isEmpty else {
            throw CommandError(
                .usage,
                "--\(option) names no \(option.dropLast())",
                advice: "give some of \(choice), or leave it out for all"
            )
        }
        return values
    }
}
