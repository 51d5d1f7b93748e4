import OpenSSL
import Postgres
import ProviderSimulator
import PushCore

// Rows that a test sends with: apps, credentials, devices, and jobs whose batches are ready.
extension DeliveryRig {
    @discardableResult
    func addApp(_ slug: String, onCredentialFailure: String = "fail") async throws -> AppID {
        let rows = try await query(
            "INSERT INTO peal.app (slug, on_credential_failure) VALUES ($1, $2) RETURNING id",
            [.text(slug), .text(onCredentialFailure)]
        )
        return AppID(try rows.int32(0, 0))
    }

    /// Adds an APNs credential. By default the simulator's own, for the simulator's production host.
    @discardableResult
    func addAPNs(
        _ app: AppID,
        key: APNsSigningKey? = nil,
        keyID: String? = nil,
        teamID: String? = nil,
        topic: String = "com.example.app",
        role: ProviderRole = .apnsProduction,
        endpoint: String? = nil,
        sealedUnder sealingKey: SealingKey? = nil
    ) async throws -> CredentialID {
        let key = key ?? simulator.credentials.apnsKeys[0]
        let id = try await reserveCredential()
        let sealed = try (sealingKey ?? masterKey).seal(
            Array(key.privateKeyPEM.utf8),
            associated: CredentialSeal.associatedData(app: app, credential: id)
        )
        _ = try await query(
            """
            INSERT INTO peal.credential (id, app_id, provider, environment, key_id, team_id, topic, endpoint, sealed)
            OVERRIDING SYSTEM VALUE VALUES ($1, $2, 'apns', $3, $4, $5, $6, $7, $8)
            """,
            [
                .credential(id), .app(app), .text(role == .apnsSandbox ? "sandbox" : "production"),
                .text(keyID ?? key.keyID), .text(teamID ?? key.teamID), .text(topic),
                .text(endpoint ?? simulator.endpoint(role).url), .bytes(sealed),
            ]
        )
        return id
    }

    /// Adds an FCM credential. By default the simulator's own service account.
    @discardableResult
    func addFCM(_ app: AppID, serviceAccount: String? = nil, endpoint: String? = nil) async throws -> CredentialID {
        let json = serviceAccount ?? simulator.serviceAccountJSON
        guard case .object(let account) = try JSONValue.parse(json), case .string(let project)? = account["project_id"],
            case .string(let email)? = account["client_email"], case .string(let tokenURI)? = account["token_uri"]
        else { throw RigError("the service account lacks a field") }
        let id = try await reserveCredential()
        let sealed = try masterKey.seal(
            Array(json.utf8),
            associated: CredentialSeal.associatedData(app: app, credential: id)
        )
        _ = try await query(
            """
            INSERT INTO peal.credential (id, app_id, provider, project_id, client_email, token_uri, endpoint, sealed)
            OVERRIDING SYSTEM VALUE VALUES ($1, $2, 'fcm', $3, $4, $5, $6, $7)
            """,
            [
                .credential(id), .app(app), .text(project), .text(email), .text(tokenURI),
                .text(endpoint ?? simulator.endpoint(.fcm).url), .bytes(sealed),
            ]
        )
        return id
    }

    private func reserveCredential() async throws -> CredentialID {
        CredentialID(try await number("SELECT nextval('peal.credential_id_seq')"))
    }

    /// Adds devices and returns their ids, ascending.
    func addDevices(
        _ app: AppID,
        tokens: [String],
        channel: String = "ios",
        environment: String = "production",
        locale: String? = nil
    ) async throws -> [Int64] {
        let rows = try await query(
            """
            INSERT INTO peal.device (app_id, channel, environment, token, locale, registered_at)
            SELECT $1, $2, $3, t.token, $4, now() - interval '1 day'
            FROM unnest($5::text[]) WITH ORDINALITY AS t (token, position) ORDER BY t.position
            RETURNING id
            """,
            [.app(app), .text(channel), .text(environment), .text(locale), .texts(tokens)]
        )
        return try rows.int64Column(0)
    }

    /// APNs tokens that are accepted, different ones for different seeds.
    static func tokens(_ count: Int, seed: Int = 0) -> [String] {
        (0..<count).map { index in
            let number = String(index + seed * 1_000_000, radix: 16)
            return "ab" + String(repeating: "0", count: 62 - number.count) + number
        }
    }

    /// What a job is besides its recipients.
    struct JobOptions {
        var lane = Lane.campaign
        var route = Route.apnsProduction
        var content = #"{"title": "Hello", "body": "World"}"#
        var onDoubt = "resend"
        var ttl: Int32? = 3_600
        var collapseID: String?
        var batchSize = 1_000
        var tag: Int64 = 0
        /// Batches expire that many seconds from now; by default with the job.
        var expiresIn: Double?
    }

    /// Adds a job whose audience is frozen and published as batches.
    func addJob(
        _ app: String,
        devices: [Int64],
        _ change: (inout JobOptions) -> Void = { _ in }
    ) async throws -> JobID {
        var options = JobOptions()
        change(&options)
        let rows = try await query(
            """
            INSERT INTO peal.job (app, audience, content, lane, on_doubt, ttl, collapse_id)
            VALUES ($1, '{"all": true}', $2::jsonb, $3, $4, $5, $6) RETURNING id
            """,
            [
                .text(app), .jsonb(options.content), .text(options.lane.name), .text(options.onDoubt),
                .int32(options.ttl), .text(options.collapseID),
            ]
        )
        let job = JobID(try rows.uuid(0, 0))
        _ = try await query(
            """
            UPDATE peal.job SET state = 'running', started_at = now(), audience_at = now(), frozen_at = now(),
                audience_count = cardinality($2::bigint[]), page_count = 1, published_pages = 1,
                expires_at = CASE WHEN $3::float8 IS NULL THEN expires_at ELSE now() + make_interval(secs => $3) END
            WHERE id = $1
            """,
            [.job(job), .int64s(devices), .double(options.expiresIn)]
        )
        _ = try await query(
            """
            INSERT INTO peal.audience_page (job_id, page_no, audience_at, route, size, first_id, last_id, ids)
            SELECT id, 0, audience_at, $2, cardinality($3::bigint[]), ($3::bigint[])[1],
                ($3::bigint[])[cardinality($3::bigint[])], $3::bigint[]
            FROM peal.job WHERE id = $1
            """,
            [.job(job), .int16(options.route.rawValue), .int64s(devices)]
        )
        for offset in stride(from: 0, to: devices.count, by: options.batchSize) {
            let size = min(options.batchSize, devices.count - offset)
            _ = try await query(
                """
                INSERT INTO peal.batch (
                    slot, lane, vt, app_id, job_id, route, page_no, page_offset, size, expires_at, done
                )
                SELECT slot, $2, $3, app_id, id, $4, 0, $5, $6, expires_at, $7 FROM peal.job WHERE id = $1
                """,
                [
                    .job(job), .int16(options.lane.rawValue), .int64(options.tag + Int64(offset)),
                    .int16(options.route.rawValue), .int32(Int32(offset)), .int32(Int32(size)),
                    .bytes(Bitmap(count: size).bytes),
                ]
            )
        }
        return job
    }

    /// Makes delayed batches ready, whether they are due or not: what the scheduler does in time. They stand where the lane
    /// is now: what stands before it is looked for only now and then.
    func promoteAll() async throws {
        _ = try await query(
            """
            WITH due AS (DELETE FROM peal.batch_delayed WHERE due_at < 'infinity' RETURNING *)
            INSERT INTO peal.batch (
                slot, lane, vt, app_id, job_id, route, page_no, page_offset, size, attempt, expires_at, done, sending_to
            )
            SELECT
                d.slot, d.lane, coalesce(c.vt, 0), d.app_id, d.job_id, d.route, d.page_no, d.page_offset, d.size,
                d.attempt, d.expires_at, d.done, d.sending_to
            FROM due AS d
            LEFT JOIN peal.lane_clock AS c ON c.slot = d.slot AND c.lane = d.lane
            """
        )
    }
}

/// A test's own mistake.
struct RigError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
