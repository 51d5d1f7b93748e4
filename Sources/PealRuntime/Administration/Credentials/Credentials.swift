package import OpenSSL
package import Postgres
package import PushCore
import SQLText

/// Adds, lists, opens and removes provider credentials.
package struct Credentials: Sendable {
    /// What `list` returns, by column.
    package static let columns = columnKinds.map(\.0)
    private static let columnKinds: [(String, CellKind)] = [
        ("id", .number), ("app_id", .number), ("app", .text), ("provider", .text), ("environment", .text),
        ("key_id", .text), ("team_id", .text), ("topic", .text), ("project_id", .text), ("client_email", .text),
        ("token_uri", .text), ("endpoint", .text), ("state", .text), ("state_reason", .text), ("verified_at", .time),
        ("created_at", .time),
    ]
    private static let sealedColumn = 16

    private let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Seals an APNs key and stores it. Throws status 4 when the key opens none of the credentials that are stored.
    @discardableResult
    package func add(
        _ credential: APNsCredential,
        endpoint: String?,
        to app: AppID,
        sealingKey: SealingKey
    ) async throws -> CredentialID {
        try await store(app, credential.pem, sealingKey) { id, sealed in
            [
                .credential(id), .app(app), .text("apns"), .text(credential.environment), .text(credential.keyID),
                .text(credential.teamID), .text(credential.topic), .text(nil), .text(nil), .text(nil),
                .text(endpoint), .bytes(sealed),
            ]
        }
    }

    /// Seals a service account and stores it. Throws status 4 when the key opens none of the credentials that are stored.
    @discardableResult
    package func add(
        _ credential: FCMCredential,
        endpoint: String?,
        to app: AppID,
        sealingKey: SealingKey
    ) async throws -> CredentialID {
        try await store(app, credential.json, sealingKey) { id, sealed in
            [
                .credential(id), .app(app), .text("fcm"), .text(nil), .text(nil), .text(nil), .text(nil),
                .text(credential.projectID), .text(credential.clientEmail), .text(credential.tokenURI),
                .text(endpoint), .bytes(sealed),
            ]
        }
    }

    /// The credentials of an app, or of all apps, without their keys.
    package func list(slug: String?) async throws -> [[Cell]] {
        try await connection.query(SQLText.adminListCredentials, [.text(slug)]).cells(Self.columnKinds)
    }

    /// Opens each credential of an app, or of all apps, and says which failed and why. Nothing leaves the process.
    package func openFailures(slug: String?, sealingKey: SealingKey) async throws -> [(id: Int64, reason: String)] {
        let rows = try await connection.query(SQLText.adminListCredentials, [.text(slug)])
        var failures: [(id: Int64, reason: String)] = []
        for row in rows.indices {
            let id = try rows.int64(row, 0)
            let associated = CredentialSeal.associatedData(
                app: AppID(try rows.int32(row, 1)),
                credential: CredentialID(id)
            )
            do {
                _ = try sealingKey.open(try rows.bytes(row, Self.sealedColumn), associated: associated)
            } catch let error as OpenSSLError {
                failures.append((id, error.message))
            }
        }
        return failures
    }

    /// Throws status 4 when there are credentials and the key opens none of them: it is another database's key, or a new one.
    package func requireKey(_ sealingKey: SealingKey) async throws {
        let count = try await list(slug: nil).count
        guard count > 0 else { return }
        guard try await openFailures(slug: nil, sealingKey: sealingKey).count >= count else { return }
        throw CommandError(
            .refused,
            Self.opensNone(of: count),
            at: "PEAL_MASTER_KEY or PEAL_MASTER_KEY_FILE",
            advice: "set the key that sealed them ('peal doctor' says which); where it is lost, remove them "
                + "('peal credential list', 'peal credential remove') and add them again"
        )
    }

    /// How a key is refused that opens none of so many credentials.
    static func opensNone(of count: Int) -> String {
        "the configured master key opens none of the \(counted(count, "credential")) of this database"
    }

    /// Removes a credential with its key. Throws status 4 when the app has no such credential.
    package func remove(_ id: CredentialID, of app: AppID) async throws {
        let removed = try await connection.query(SQLText.adminRemoveCredential, [.app(app), .credential(id)])
        if removed.affectedCount == 0 {
            throw CommandError(.refused, "the app has no credential \(id)", advice: "'peal credential list' shows them")
        }
    }

    private func store(
        _ app: AppID,
        _ secret: [UInt8],
        _ sealingKey: SealingKey,
        parameters: (CredentialID, [UInt8]) -> PostgresParameters
    ) async throws -> CredentialID {
        try await requireKey(sealingKey)
        let id = CredentialID(try await connection.query(SQLText.adminNextCredentialId).int64(0, 0))
        let associated = CredentialSeal.associatedData(app: app, credential: id)
        let sealed = try sealingKey.seal(secret, associated: associated)
        _ = try await connection.query(SQLText.adminInsertCredential, parameters(id, sealed))
        return id
    }
}
