package import Testing

/// Asks again and again until a condition holds; records an issue when it does not within the time.
///
/// For what another process or loop does at a moment of its own choosing. Between two looks it yields.
package func eventually(
    within limit: Duration = .seconds(60),
    _ what: Comment,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ condition: () async throws -> Bool
) async throws {
    let end = ContinuousClock.now.advanced(by: limit)
    while try await !condition() {
        guard ContinuousClock.now < end else {
            Issue.record(what, sourceLocation: sourceLocation)
            return
        }
        await Task.yield()
    }
}
