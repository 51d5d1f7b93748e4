import Delivery
package import OpenSSL
package import Postgres
package import PushCore
import SQLText
package import Telemetry

/// Has the providers verify the credentials of an app, and records what they said.
package struct CredentialVerification: Sendable {
    /// What `run` returns, by column.
    package static let columns = ["id", "provider", "environment", "verdict", "reason", "advice"]

    private let connection: PostgresConnection
    private let sealingKey: SealingKey
    private let caFile: String?
    private let logger: Logger

    /// A verification that writes over `connection`; the probe makes one of its own.
    package init(_ connection: PostgresConnection, sealingKey: SealingKey, caFile: String?, logger: Logger) {
        self.connection = connection
        self.sealingKey = sealingKey
        self.caFile = caFile
        self.logger = logger
    }

    /// Probes each credential. One that is accepted is used again, one that is refused no longer.
    package func run(_ app: AppID) async throws -> (rows: [[Cell]], areAllAccepted: Bool) {
        let probe = try CredentialProbe(
            database: connection.configuration,
            masterKey: sealingKey,
            caFile: caFile,
            logger: logger
        )
        let findings = try await probe.examine(app)
        for finding in findings where finding.verdict != .undecided {
            let isAccepted = finding.verdict == .accepted
            _ = try await connection.query(
                SQLText.adminRecordVerification,
                [.credential(finding.credential), .bool(isAccepted), .text(isAccepted ? nil : finding.reason)]
            )
        }
        let rows: [[Cell]] = findings.sorted { $0.credential.value < $1.credential.value }.map { finding in
            let isAccepted = finding.verdict == .accepted
            return [
                .number(Int(finding.credential.value)), .text(finding.provider), Cell(finding.environment),
                .text(finding.verdict.rawValue), Cell(isAccepted ? nil : finding.reason),
                Cell(finding.advice.isEmpty ? nil : finding.advice),
            ]
        }
        return (rows, !findings.isEmpty && findings.allSatisfy { $0.verdict == .accepted })
    }
}
