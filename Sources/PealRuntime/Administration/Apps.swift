package import Postgres
package import PushCore
import SQLText

/// Adds, lists, finds and changes apps.
package struct Apps: Sendable {
    /// What `list` returns, by column.
    package static let columns = columnKinds.map(\.0)
    private static let columnKinds: [(String, CellKind)] = [
        ("slug", .text), ("name", .text), ("weight", .number), ("default_ttl", .number),
        ("on_credential_failure", .text),
        ("credentials", .number), ("created_at", .time),
    ]
    /// What `set` takes.
    package static let settings = ["name", "weight", "default_ttl", "on_credential_failure"]

    private let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Adds an app. Throws status 4 when the slug is malformed or taken.
    @discardableResult
    package func create(slug: String, name: String?) async throws -> AppID {
        try Self.checkSlug(slug)
        let rows = try await connection.query(SQLText.adminCreateApp, [.text(slug), .text(name)])
        guard !rows.isEmpty else {
            let advice = "'peal app list' shows all, 'peal app set \(slug) …' changes it"
            throw CommandError(.refused, "there is an app called '\(slug)' already", advice: advice)
        }
        return AppID(try rows.int32(0, 0))
    }

    /// All apps, by slug.
    package func list() async throws -> [[Cell]] {
        try await connection.query(SQLText.adminListApps).cells(Self.columnKinds)
    }

    /// Finds an app. Throws status 4 that names the nearest slug when there is none.
    package func find(_ slug: String) async throws -> AppID {
        let rows = try await connection.query(SQLText.adminFindApp, [.text(slug)])
        if !rows.isEmpty { return AppID(try rows.int32(0, 0)) }
        let known = try await connection.query(SQLText.adminListAppSlugs)
        let slugs = try known.indices.map { row throws(PostgresError) in try known.text(row, 0) }
        let guess = NearestName.of(slug, among: slugs).map { "did you mean '\($0)'? " } ?? ""
        throw CommandError(
            .refused,
            "there is no app called '\(slug)'",
            advice: "\(guess)'peal app list' shows all, 'peal app create \(slug)' adds it"
        )
    }

    /// Changes settings given as `key=value`. Throws status 4 that names the key and what it may be.
    package func set(_ slug: String, _ assignments: [String]) async throws {
        var values: [String: String] = [:]
        for assignment in assignments {
            let parts = assignment.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw CommandError(.usage, "'\(assignment)' is not of the form key=value") }
            let key = String(parts[0])
            guard Self.settings.contains(key) else {
                let guess = NearestName.of(key, among: Self.settings).map { "did you mean \($0)? " } ?? ""
                let known = Self.settings.joined(separator: ", ")
                throw CommandError(.refused, "'\(key)' is not a setting of an app", advice: "\(guess)known: \(known)")
            }
            if values.updateValue(String(parts[1]), forKey: key) != nil {
                throw CommandError(.usage, "\(key) is given twice")
            }
        }
        let weight = try Self.number("weight", in: values, range: 1...10_000)
        let ttl = try Self.number("default_ttl", in: values, range: 0...2_419_200)
        if let policy = values["on_credential_failure"], !["fail", "hold"].contains(policy) {
            throw CommandError(.refused, "on_credential_failure must be fail or hold, found '\(policy)'")
        }
        let changed = try await connection.query(
            SQLText.adminSetApp,
            [
                .text(slug), .text(values["name"]), .int32(weight), .int32(ttl),
                .text(values["on_credential_failure"]),
            ]
        )
        if changed.affectedCount == 0 { _ = try await find(slug) }
    }

    private static func number(
        _ key: String,
        in values: [String: String],
        range: ClosedRange<Int32>
    ) throws(CommandError) -> Int32? {
        guard let text = values[key] else { return nil }
        guard let number = Int32(text), range.contains(number) else {
            let bounds = "\(range.lowerBound) to \(range.upperBound)"
            throw CommandError(.refused, "\(key) must be a whole number from \(bounds), found '\(text)'")
        }
        return number
    }

    private static func checkSlug(_ slug: String) throws(CommandError) {
        let bytes = Array(slug.utf8)
        let isLetterOrDigit = { (byte: UInt8) in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        let fits =
            (1...63).contains(bytes.count) && isLetterOrDigit(bytes[0])
            && bytes.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
        if fits { return }
        throw CommandError(
            .refused,
            "'\(slug)' cannot be the slug of an app",
            advice: "a slug is 1 to 63 of a-z, 0-9, - and _, and begins with a letter or a digit"
        )
    }
}
