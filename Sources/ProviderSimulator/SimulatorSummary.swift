/// What a run came to: counts, cost, and what it says nothing about.
package struct SimulatorSummary: Sendable {
    /// `checked`, `quick`, or `quick hand-framed` when nothing of a request is decoded.
    package let mode: String
    /// What this mode does not look at, a phrase each; empty when all is checked.
    package let notChecked: [String]
    package let totals: SimulatorTotals
    /// CPU time of the simulator's thread, at most 50 ms old.
    package let cpuSeconds: Double
    package let roundTripMilliseconds: Int

    /// One line: `mode`, `not_checked`, `requests`, `requests_by_role`, `accepted`, `rejected`, `unanswered`,
    /// `connections`, `payload_bytes`, `round_trip_ms`, `cpu_seconds`.
    package var json: String {
        let byRole = ProviderRole.allCases.map { "\(jsonQuoted($0.rawValue)):\(totals.requests(to: $0))" }
        let parts = [
            "\"mode\":\(jsonQuoted(mode))",
            "\"not_checked\":[\(notChecked.map(jsonQuoted).joined(separator: ","))]",
            "\"requests\":\(totals.requests)",
            "\"requests_by_role\":{\(byRole.joined(separator: ","))}",
            "\"accepted\":\(totals.accepted)",
            "\"rejected\":\(totals.rejected)",
            "\"unanswered\":\(totals.unanswered)",
            "\"connections\":\(totals.connectionsOpened)",
            "\"payload_bytes\":\(totals.payloadBytes)",
            "\"round_trip_ms\":\(roundTripMilliseconds)",
            "\"cpu_seconds\":\(cpuSeconds)",
        ]
        return "{\(parts.joined(separator: ","))}"
    }
}

extension SimulatorOptions {
    /// Requests to APNs and FCM are not even decoded, as long as no rule is set.
    var isHandFramed: Bool {
        depth == .quick && ledger == .totals && !honoursTokenWords && listener == nil && ledgerFile == nil
            && latencyMilliseconds == 0
    }

    /// See `SimulatorSummary.mode`.
    var mode: String { depth == .checked ? "checked" : isHandFramed ? "quick hand-framed" : "quick" }

    /// See `SimulatorSummary.notChecked`.
    var notChecked: [String] {
        guard depth == .quick else { return [] }
        let always = [
            "method, path and headers", "provider and access tokens", "topics and push types", "device tokens",
            "payloads and their size",
        ]
        guard isHandFramed else { return always }
        return always + [
            "HPACK and the order of frames", "MAX_CONCURRENT_STREAMS", "flow control of what clients send",
            "whether a request came twice or never",
        ]
    }
}

extension ProviderSimulator {
    /// Where it listens and what to trust, in one line: `endpoints`, `ca_file`, `key_id`, `team_id`, `project`, `mode`,
    /// `not_checked`.
    package var endpointsJSON: String {
        let urls = ProviderRole.allCases.compactMap { role in
            endpoints[role].map { "\(jsonQuoted(role.rawValue)):\(jsonQuoted($0.url))" }
        }
        let parts = [
            "\"endpoints\":{\(urls.joined(separator: ","))}",
            "\"ca_file\":\(jsonQuoted(caFile))",
            "\"key_id\":\(jsonQuoted(keyID))",
            "\"team_id\":\(jsonQuoted(teamID))",
            "\"project\":\(jsonQuoted(projectID))",
            "\"mode\":\(jsonQuoted(summary.mode))",
            "\"not_checked\":[\(summary.notChecked.map(jsonQuoted).joined(separator: ","))]",
        ]
        return "{\(parts.joined(separator: ","))}"
    }
}
