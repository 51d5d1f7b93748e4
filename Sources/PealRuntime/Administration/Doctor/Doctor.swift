import Glibc
import Postgres
import PushCore
import SQLText

/// Looks at the machine, the database, the credentials and the clock, and says what is wrong with them.
package struct Doctor: Sendable {
    /// Clocks that differ by more make provider tokens and expiries wrong.
    private static let clockTolerance: Duration = .seconds(2)
    private static let fewestFileDescriptors: UInt = 1024
    private static let oldestServer: Int32 = 150_000

    let settings: Settings
    private let countsResults: Bool

    /// A doctor for these settings. With `countsResults` every result that is kept is counted against its job.
    package init(settings: Settings, countsResults: Bool) {
        self.settings = settings
        self.countsResults = countsResults
    }

    /// Everything that was looked at, in order. Changes nothing.
    package func examine() async -> [DoctorFinding] {
        var findings = examineMachine()
        do {
            let connection = try await Database.connect(settings.requireDatabaseURL(), purpose: "doctor")
            findings += try await examineServer(connection)
            findings += await examineDirectConnection()
            findings += await examineSchema(connection)
        } catch {
            let error = CommandError(describing: error)
            findings.append(DoctorFinding("database", .problem, error.whatAndWhere, advice: error.adviceOfDoctor()))
        }
        return findings
    }

    private func examineMachine() -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        for variable in settings.unknownVariables {
            let advice = variable.nearest.map { "did you mean \($0)?" } ?? "unset it"
            findings.append(DoctorFinding("environment", .warning, "\(variable.name) means nothing", advice: advice))
        }
        var limit = rlimit()
        if unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            let isEnough = limit.rlim_cur >= Self.fewestFileDescriptors
            findings.append(
                DoctorFinding(
                    "machine",
                    isEnough ? .ok : .warning,
                    "\(limit.rlim_cur) files and sockets may be open",
                    advice: isEnough ? "" : "raise the limit: ulimit -n \(Self.fewestFileDescriptors)"
                )
            )
        }
        do {
            let extra = try settings.usableCAFile().map { " and those of \($0)" } ?? ""
            findings.append(DoctorFinding("certificates", .ok, "the system's authorities\(extra) are trusted"))
        } catch {
            findings.append(DoctorFinding("certificates", .problem, error.whatAndWhere, advice: error.advice))
        }
        do {
            _ = try settings.retentionDays()
        } catch {
            findings.append(DoctorFinding("environment", .problem, error.whatAndWhere, advice: error.advice))
        }
        return findings
    }

    private func examineServer(_ connection: PostgresConnection) async throws -> [DoctorFinding] {
        let before = WallClock.now()
        let rows = try await connection.query(SQLText.adminDescribeServer)
        let after = WallClock.now()
        let version = try rows.text(0, 1)
        var findings = [
            DoctorFinding(
                "database",
                try rows.int32(0, 0) >= Self.oldestServer ? .ok : .problem,
                "PostgreSQL \(version), database \(try rows.text(0, 5)), user \(try rows.text(0, 6))",
                advice: try rows.int32(0, 0) >= Self.oldestServer ? "" : "peal needs PostgreSQL 15 or newer"
            )
        ]
        if try !rows.bool(0, 2) {
            let advice = "name the primary, or several hosts, in PEAL_DATABASE_URL"
            findings.append(DoctorFinding("database", .problem, "the server is read-only", advice: advice))
        }
        findings.append(clockFinding(server: try rows.timestamp(0, 3), between: before, and: after))
        let most = try rows.int32(0, 7)
        let used = try rows.int64(0, 8)
        findings.append(
            DoctorFinding(
                "database",
                used + 10 > most ? .warning : .ok,
                "\(used) of \(most) connections are in use",
                advice: used + 10 > most ? "raise max_connections, or use a pooler" : ""
            )
        )
        if try !rows.bool(0, 9) {
            let advice = "GRANT TEMPORARY ON DATABASE … TO this user"
            findings.append(DoctorFinding("database", .warning, "device import cannot make its table", advice: advice))
        }
        findings += try await poolerFindings(connection, serverProcess: try rows.int32(0, 4))
        return findings
    }

    private func clockFinding(
        server: WallClock.Instant,
        between before: WallClock.Instant,
        and after: WallClock.Instant
    ) -> DoctorFinding {
        let middle = before + (after - before) / 2
        let skew = server - middle
        let milliseconds = skew.wholeMicroseconds / 1000
        let isFine = (skew < .zero ? .zero - skew : skew) <= Self.clockTolerance
        return DoctorFinding(
            "clock",
            isFine ? .ok : .problem,
            "the server's clock is \(milliseconds) ms ahead of this machine's",
            advice: isFine ? "" : "set both by NTP: providers refuse tokens whose time is off"
        )
    }

    private func poolerFindings(
        _ connection: PostgresConnection,
        serverProcess: Int32
    ) async throws -> [DoctorFinding] {
        guard await connection.announcedProcessID != serverProcess else { return [] }
        let hasDirect = settings.directDatabaseURL != nil
        return [
            DoctorFinding(
                "pooler",
                hasDirect ? .ok : .warning,
                "the database is reached through a pooler",
                advice: hasDirect ? "" : "set PEAL_DIRECT_DATABASE_URL, or urgent pushes wait for the next poll"
            )
        ]
    }

    private func examineDirectConnection() async -> [DoctorFinding] {
        guard let url = settings.directDatabaseURL else { return [] }
        do {
            let connection = try await Database.connect(url, purpose: "doctor")
            let rows = try await connection.query(SQLText.adminDescribeServer)
            guard await connection.announcedProcessID == (try rows.int32(0, 4)) else {
                let advice = "PEAL_DIRECT_DATABASE_URL must lead to the server itself"
                return [DoctorFinding("direct database", .problem, "it leads through a pooler", advice: advice)]
            }
            return [DoctorFinding("direct database", .ok, "it leads to the server itself")]
        } catch {
            let error = CommandError(describing: error)
            let advice = error.adviceOfDoctor(variable: "PEAL_DIRECT_DATABASE_URL")
            return [DoctorFinding("direct database", .problem, error.whatAndWhere, advice: advice)]
        }
    }
}

extension CommandError {
    /// What happened and where, without the advice.
    var whatAndWhere: String {
        location.isEmpty ? what : "\(what): \(location)"
    }

    /// The advice without sending to the doctor whoever reads its words already.
    func adviceOfDoctor(variable: String = "PEAL_DATABASE_URL") -> String {
        guard advice == Self.unreachableAdvice else { return advice }
        return "start the server ('peal up' brings its own), or check \(variable)"
    }
}

// MARK: - Schema

extension Doctor {
    private func examineSchema(_ connection: PostgresConnection) async -> [DoctorFinding] {
        do {
            try await Database.migrator().schemaRangeCheck(connection)
        } catch {
            let problem = CommandError(describing: error)
            return [DoctorFinding("schema", .problem, problem.whatAndWhere, advice: problem.adviceOfDoctor())]
        }
        do {
            return try await describeSchema(connection) + examineCredentials(connection)
                + examineHeldTokens(connection)
        } catch {
            let error = CommandError(describing: error)
            return [DoctorFinding("schema", .problem, error.whatAndWhere, advice: error.adviceOfDoctor())]
        }
    }

    private func describeSchema(_ connection: PostgresConnection) async throws -> [DoctorFinding] {
        let rows = try await connection.query(SQLText.adminDescribeSchema)
        let days = try rows.int32(0, 3)
        let waiting = try rows.int64(0, 4)
        let workers = try rows.int64(0, 5)
        var findings = [
            DoctorFinding("schema", .ok, "it fits this version, \(counted(try rows.int64(0, 0), "app"))"),
            DoctorFinding(
                "partitions",
                days >= 2 ? .ok : days == 1 ? .warning : .problem,
                "results have room for \(counted(days, "day"))",
                advice: days >= 2 ? "" : "a worker with the scheduler role makes them; is one running?"
            ),
            DoctorFinding(
                "workers",
                waiting == 0 ? .ok : .problem,
                waiting == 0
                    ? "\(counted(workers, "connection")) of workers, no job is waiting"
                    : "\(counted(waiting, "job")) due for more than a minute, \(counted(workers, "connection")) of workers",
                advice: waiting == 0 ? "" : "start one: peal worker"
            ),
        ]
        let bare = try rows.int64(0, 1)
        if bare > 0 {
            let advice = "peal credential add APP apns|fcm …"
            findings.append(
                DoctorFinding("credentials", .warning, "\(counted(bare, "app")) without any", advice: advice)
            )
        }
        let refused = try rows.int64(0, 2)
        if refused > 0 {
            let advice = "see 'peal credential list', then add a working one or run 'peal credential verify APP'"
            findings.append(
                DoctorFinding(
                    "credentials",
                    .problem,
                    "\(counted(refused, "credential")) refused by the provider",
                    advice: advice
                )
            )
        }
        if countsResults { findings.append(try await accountingFinding(connection)) }
        return findings
    }

    private func accountingFinding(_ connection: PostgresConnection) async throws -> DoctorFinding {
        let wrong = try await connection.query(SQLText.adminCheckAccounting, deadline: .seconds(600))
        if wrong.isEmpty { return DoctorFinding("accounting", .ok, "the count of every job adds up") }
        let first = JobID(try wrong.uuid(0, 0))
        return DoctorFinding(
            "accounting",
            .problem,
            "\(counted(wrong.count, "job")) whose count does not add up, the first is \(first)",
            advice: "peal.check_accounting() lists them; please report it"
        )
    }
}
