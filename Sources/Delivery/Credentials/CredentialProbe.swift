import HTTP2
package import OpenSSL
package import Postgres
package import PushCore
import SQLText
package import Telemetry

/// Asks the providers whether they take an app's credentials: one request each, to a token that no device has.
package struct CredentialProbe: Sendable {
    /// What a provider said about a credential.
    package struct Finding: Sendable, Equatable {
        package enum Verdict: String, Sendable {
            case accepted, refused
            /// The provider did not say: it could not be reached, or was busy.
            case undecided
        }

        package let credential: CredentialID
        /// `apns` or `fcm`.
        package internal(set) var provider = ""
        /// Of APNs, `production` or `sandbox`.
        package internal(set) var environment: String?
        package let verdict: Verdict
        /// The provider's word, or a word for what went wrong on the way.
        package let reason: String
        /// What happened and what to look at; empty when it was accepted.
        package let advice: String

        /// The provider did not say, and why.
        static func undecided(_ credential: CredentialID, _ error: any Error) -> Finding {
            var reason = "not_asked"
            if let error = error as? HTTP2Error, case .unanswered(let cause, _) = error.code { reason = cause.reason }
            return Finding(credential: credential, verdict: .undecided, reason: reason, advice: "\(error)")
        }
    }

    private static let timeLimit: Duration = .seconds(15)

    private let database: PostgresConfiguration
    private let masterKey: SealingKey
    private let tls: TLSContext
    private let logger: Logger

    /// A probe that opens credentials with the master key and trusts a CA file beside the system's authorities.
    package init(
        database: PostgresConfiguration,
        masterKey: SealingKey,
        caFile: String?,
        logger: Logger
    ) throws(OpenSSLError) {
        self.database = database
        self.masterKey = masterKey
        self.logger = logger
        tls = try TLSContext(trustingAlso: caFile)
    }

    /// Probes every credential of an app, those that were refused before among them. Takes up to 30 s for each.
    package func examine(_ app: AppID) async throws -> [Finding] {
        let pool = PostgresPool(credentials: database)
        let client = try HTTP2Client(name: "peal-probe") { _ in }
        let tokens = ProviderTokens(
            database: pool,
            masterKey: masterKey,
            client: client,
            tls: tls,
            endsAtTLSFailure: true,
            logger: logger
        )
        let rows = try await pool.query(SQLText.deliveryReadCredentials, [.int32s([app.value])])
        var findings: [Finding] = []
        for row in rows.indices {
            let credential = try CredentialRow(rows, row: row)
            var finding = await examine(credential, client, tokens)
            finding.provider = credential.provider
            finding.environment = credential.environment
            findings.append(finding)
        }
        await client.stop(within: .seconds(1))
        await pool.close()
        return findings
    }

    private func examine(_ row: CredentialRow, _ client: HTTP2Client, _ tokens: ProviderTokens) async -> Finding {
        do {
            let credential = try row.open(with: masterKey)
            switch await tokens.bearer(for: credential) {
            case .unavailable(let why):
                // Whatever the token endpoint says to a well formed request about the account is its verdict.
                let isAnswer = why.reason != "provider_token_unavailable"
                return Finding(
                    credential: row.version.id,
                    verdict: isAnswer ? .refused : .undecided,
                    reason: why.reason,
                    advice: why.detail
                )
            case .bearer(let bearer):
                return try await ask(credential, bearer, client)
            }
        } catch {
            return .undecided(row.version.id, error)
        }
    }

    private func ask(
        _ credential: ProviderCredential,
        _ bearer: Bearer,
        _ client: HTTP2Client
    ) async throws -> Finding {
        var configuration = PoolConfiguration(
            host: credential.endpoint.host,
            port: credential.endpoint.port,
            tls: tls
        )
        configuration.maximumConnections = 1
        configuration.connectPatience = .seconds(10)
        configuration.endsAtTLSFailure = true
        let pool = client.makePool(configuration)
        try client.setField("authorization", value: bearer.value, of: pool)
        return try await Self.ask(credential, client, pool)
    }

    /// Asks over a pool that signs in with the credential.
    static func ask(
        _ credential: ProviderCredential,
        _ client: HTTP2Client,
        _ pool: PoolID
    ) async throws -> Finding {
        let response = try await client.send(request(for: credential), to: pool)
        let verdict =
            switch credential.account {
            case .apns: APNsResponse.interpret(status: response.status, body: response.body.span)
            case .fcm: FCMResponse.interpret(status: response.status, body: response.body.span)
            }
        return finding(verdict, of: credential)
    }

    /// A token that no device has, another for each credential: APNs answers BadDeviceToken once all else is accepted.
    private static func apnsToken(for credential: CredentialID) -> String {
        let digits = String(credential.value, radix: 16)
        return String(repeating: "0", count: 64 - digits.count) + digits
    }

    /// A message that would be shown nowhere even if a device had the token.
    private static func request(for credential: ProviderCredential) throws(HTTP2Error) -> RequestBatch {
        var builder = RequestBatchBuilder(timeLimit: timeLimit, reserving: 1, bytesEach: 512)
        switch credential.account {
        case .apns(_, _, let topic, _):
            for (name, value) in [
                ("apns-topic", topic), ("apns-push-type", "background"), ("apns-priority", "5"),
                ("apns-expiration", "0"),
            ] {
                try builder.addField(name, value: value)
            }
            let body = builder.makeBody(.bytes(builder.store(#"{"aps":{"content-available":1}}"#)))
            try builder.add(path: builder.store("/3/device/\(apnsToken(for: credential.id))"), body: body)
        case .fcm(let projectID, _, _, _, _):
            return try validation(
                of: Array("peal-credential-verify".utf8),
                project: projectID,
                within: timeLimit
            )
        }
        return builder.finish()
    }

    /// A minimal message that FCM checks and does not deliver.
    ///
    /// - Parameters:
    ///   - deadline: it is not sent after this moment.
    ///   - timeLimit: how long the answer may take once it is sent.
    static func validation(
        of token: [UInt8],
        project: String,
        deadline: WallClock.Instant? = nil,
        within timeLimit: Duration
    ) throws(HTTP2Error) -> RequestBatch {
        var builder = RequestBatchBuilder(deadline: deadline, timeLimit: timeLimit, reserving: 1, bytesEach: 512)
        try builder.addField("content-type", value: "application/json")
        var text = ByteWriter(capacity: 256)
        text.append(json: .string(String(decoding: token, as: UTF8.self)))
        let start = Array(#"{"validate_only":true,"message":{"token":"#.utf8)
        let content = start + text.bytes + Array(#","data":{"peal":"verify"}}}"#.utf8)
        let body = builder.makeBody(.bytes(builder.store(content)))
        try builder.add(path: builder.store("/v1/projects/\(project)/messages:send"), body: body)
        return builder.finish()
    }

    /// A complaint about the message or its token means that the credential was taken.
    private static func finding(_ verdict: PushCore.Verdict, of credential: ProviderCredential) -> Finding {
        let word =
            switch verdict.outcome {
            case .accepted: "accepted"
            case .rejected(let reason), .throttled(let reason, _): reason.text
            case .unanswered(let cause): cause.rawValue
            }
        let credentialVerdict = verdict.disposition.credentialVerdict
        let advice =
            switch credentialVerdict {
            case .accepted: ""
            case .refused: credential.settingsHint
            case .undecided: "try again later"
            }
        return Finding(credential: credential.id, verdict: credentialVerdict, reason: word, advice: advice)
    }
}

extension Disposition {
    /// What an answer says of the credential that its request was made with.
    var credentialVerdict: CredentialProbe.Finding.Verdict {
        switch self {
        case .settle, .deadToken, .payloadFault: .accepted
        case .credentialRefused, .refreshCredential: .refused
        case .retry, .retryNow, .doubtful: .undecided
        }
    }
}
