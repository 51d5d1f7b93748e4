import OpenSSL
import Postgres
import PushCore
import SQLText

extension Doctor {
    /// Looks whether the master key opens the credentials, and whether words about their tokens are held back.
    func examineCredentials(_ connection: PostgresConnection) async throws -> [DoctorFinding] {
        let credentials = Credentials(connection)
        let count = try await credentials.list(slug: nil).count
        let sealingKey: SealingKey?
        do {
            sealingKey = try settings.masterKey()
        } catch {
            return [DoctorFinding("master key", .problem, error.whatAndWhere, advice: error.advice)]
        }
        guard let sealingKey else {
            let advice = "set PEAL_MASTER_KEY_FILE; a new key: openssl rand -hex 32"
            return [DoctorFinding("master key", count > 0 ? .problem : .warning, "none is configured", advice: advice)]
        }
        let failures = try await credentials.openFailures(slug: nil, sealingKey: sealingKey)
        guard let first = failures.first else {
            return [DoctorFinding("master key", .ok, "it opens \(counted(count, "credential"))")]
        }
        return [
            DoctorFinding(
                "master key",
                .problem,
                "\(failures.count) of \(count) credentials do not open, the first is \(first.id): \(first.reason)",
                advice: "set the key that sealed them, or add them again"
            )
        ]
    }

    /// Credentials under which tokens look dead and nobody is disabled: mostly a wrong environment, topic or project.
    func examineHeldTokens(_ connection: PostgresConnection) async throws -> [DoctorFinding] {
        let rows = try await connection.query(SQLText.adminHeldCredentials)
        return try rows.indices.map { row in
            let isProven = try rows.bool(row, 2)
            let suspected = counted(try rows.int32(row, 3), "token")
            let credential = "credential \(try rows.int64(row, 0)) of app \(try rows.text(row, 1))"
            return DoctorFinding(
                "dead tokens",
                .warning,
                isProven
                    ? "\(suspected) of the last answers under \(credential) look dead, so no device is disabled"
                    : "no push under \(credential) was accepted yet, so no device is disabled for a dead token",
                advice: isProven
                    ? "check that devices register with the right environment, and the credential's topic or project"
                    : "check the environment, topic or project of the credential: peal credential list"
            )
        }
    }
}
