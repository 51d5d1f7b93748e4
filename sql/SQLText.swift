package import PushCore

/// The SQL of peal, built into the binary: one file of `sql/queries` or `sql/migrations` is one value here.
package enum SQLText {
    /// Asks the server whether it can be written to. Returns one row: `writable` boolean, `now` timestamptz.
    package static let healthPing = statement("health_ping", PackageResources.health_ping_sql)

    static func statement(_ name: StaticString, _ text: StaticString) -> SQLStatement {
        SQLStatement(name: "\(name)", text: "\(text)")
    }
}
