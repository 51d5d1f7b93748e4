/// Looks again and again until the condition holds. Throws, naming what was awaited, when the limit comes first.
package func wait(
    for awaited: String,
    upTo limit: Duration = .seconds(30),
    until condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw WaitTimeout("\(awaited), within \(limit)") }
        try await ContinuousClock().sleep(until: .now + .milliseconds(20))
    }
}

/// Something that a test waited for did not happen in time.
package struct WaitTimeout: Error, Sendable, CustomStringConvertible {
    package let awaited: String

    package init(_ awaited: String) {
        self.awaited = awaited
    }

    package var description: String { "waited in vain for \(awaited)" }
}
