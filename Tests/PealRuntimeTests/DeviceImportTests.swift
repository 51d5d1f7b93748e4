import Glibc
import PealRuntime
import Postgres
import PushCore
import SQLText
import TestSupport
import Testing

@Suite struct DeviceImportTests {
    /// Imports a text as a file into an app, and returns the figures and what was said about rows.
    private func importCSV(
        _ csv: String,
        into app: AppID,
        _ connection: PostgresConnection
    ) async throws -> (DeviceImport.Report, [ImportNotice]) {
        let file = try TemporaryFile(csv)
        var notices: [ImportNotice] = []
        let report = try await DeviceImport(app: app, connection: connection).run(path: file.path) { _, _, new in
            notices += new
        }
        return (report, notices)
    }

    private func rows(_ sql: String, _ connection: PostgresConnection) async throws -> [String] {
        let rows = try await connection.query(SQLStatement(name: "test", text: sql))
        return try rows.indices.map { row throws(PostgresError) in try rows.text(row, 0) }
    }

    private func token(_ seed: Int) -> String {
        String(repeating: Hex.encode([UInt8(seed)]), count: 32)
    }

    @Test func `a mixed file is stored as it says, and importing it again changes nothing`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let csv = """
                channel,token,external_id,environment,tags,timezone
                ios,\(token(1).uppercased()),u1,sandbox,"{""plan"":""pro""}",Europe/Berlin
                android,fcm-token:1,u2,,,
                """
            let (first, _) = try await importCSV(csv, into: app, connection)
            #expect(first.read == 2 && first.added == 2 && first.updated == 0)
            let stored = try await rows(
                "SELECT concat_ws('|', channel, route, token, external_id, environment, tags, timezone) "
                    + "FROM peal.device ORDER BY channel",
                connection
            )
            #expect(
                stored == [
                    "android|3|fcm-token:1|u2|production|{}",
                    "ios|2|\(token(1))|u1|sandbox|{\"plan\": \"pro\"}|Europe/Berlin",
                ]
            )
            let (second, _) = try await importCSV(csv, into: app, connection)
            #expect(second.added == 0 && second.updated == 2)
            #expect(try await rows("SELECT count(*)::text FROM peal.device", connection) == ["2"])
        }
    }

    @Test func `an import through a pooler stores what a direct one does`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let lines = (0..<30_000).map { "android,fcm-token:\($0),i\($0)" }
            let csv = (["channel,token,installation_id"] + lines).joined(separator: "\n")
            try await withPgBouncer(database) { configuration in
                let pooled = try await PostgresConnection.connect(configuration)
                let (first, _) = try await importCSV(csv, into: app, pooled)
                #expect(first.added == 30_000)
                let (second, _) = try await importCSV(csv, into: app, pooled)
                #expect(second.added == 0 && second.updated == 30_000)
                await pooled.close()
            }
            #expect(try await rows("SELECT count(*)::text FROM peal.device", connection) == ["30000"])
        }
    }

    @Test func `one hundred rows with four faults give 96 devices and a report with lines`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            var lines = ["channel,token,external_id"]
            for number in 2...101 { lines.append("android,token-\(number),user-\(number)") }
            lines[10] = "android,token-11"  // line 11
            lines[20] = "ios,APA91b-no-hex,user-21"
            lines[30] = "windows,token-31,user-31"
            lines[40] = "android,token-2,user-41"
            let (report, notices) = try await importCSV(lines.joined(separator: "\r\n"), into: app, connection)
            #expect(report.read == 100 && report.refused == 3 && report.merged == 1 && report.added == 96)
            #expect(notices.filter { $0.kind == .refused }.map(\.line) == [11, 21, 31])
            let merged = try #require(notices.first { $0.kind == .merged })
            #expect(merged.line == 2 && merged.reason == "token is on line 41 again, and that row wins")
            let owner = "SELECT external_id FROM peal.device WHERE token = 'token-2'"
            #expect(try await rows(owner, connection) == ["user-41"])
        }
    }

    @Test(arguments: ["", "\n", "\r\n"])
    func `a file that does not end in a line end is imported, and its last row said to be doubtful`(
        end: String
    ) async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let csv = "channel,token,external_id\nandroid,fcm-token:1,user-1\nandroid,fcm-token:2,user-1" + end
            let (report, notices) = try await importCSV(csv, into: app, connection)
            #expect(report.added == 2 && report.refused == 0)
            #expect(notices.map(\.line) == (end.isEmpty ? [3] : []))
            guard end.isEmpty else { return }
            #expect(notices.map(\.kind) == [.doubtful])
            #expect(notices.first?.reason.contains("does not end in a line end") == true)
        }
    }

    @Test func `a last row that is refused is not said to be doubtful too`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let (_, notices) = try await importCSV("channel,token\nandroid,fcm-token:1\nios", into: app, connection)
            #expect(notices.map(\.kind) == [.refused])
        }
    }

    @Test func `a report is emptied when there is something to write, not before`() throws {
        let earlier = try TemporaryFile("line,what,reason\n2,refused,token\n")
        var report: ImportReport? = try ImportReport(path: earlier.path, inputPath: "/dev/null")
        report = nil
        #expect(try earlier.text() == "line,what,reason\n2,refused,token\n")
        report = try ImportReport(path: earlier.path, inputPath: "/dev/null")
        try report?.flush()
        #expect(try earlier.text() == "line,what,reason\n")
        try report?.flush()
        #expect(try earlier.text() == "line,what,reason\n")
    }

    @Test func `a report that was never begun leaves no file where none was`() throws {
        let file = try TemporaryFile("")
        let path = file.path + ".report"
        var report: ImportReport? = try ImportReport(path: path, inputPath: "/dev/null")
        #expect(unsafe access(path, F_OK) == 0)
        _ = report
        report = nil
        #expect(unsafe access(path, F_OK) != 0)
    }

    @Test func `seventy thousand rows are stored, over the limits of parameters and of one chunk`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            var csv = "channel,token,external_id\n"
            for number in 0..<70_000 { csv += "android,token-\(number),user-\(number / 2)\n" }
            csv += "android,token-5,late\n"
            let (report, notices) = try await importCSV(csv, into: app, connection)
            #expect(report.read == 70_001 && report.added == 70_000 && report.updated == 1 && report.merged == 1)
            #expect(report.lastLine == 70_002)
            #expect(notices.map(\.line) == [7])
            let late = "SELECT token FROM peal.device WHERE external_id = 'late'"
            #expect(try await rows(late, connection) == ["token-5"])
        }
    }

    /// Of an app without devices the statistics know nothing.
    @Test func `a new app's rows are looked up by index, whatever the statistics say of the table`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let csv = Self.installations(45_000, token: "token")
            let first = try await Apps(connection).create(slug: "first", name: nil)
            _ = try await importCSV(csv, into: first, connection)
            _ = try await rows("ANALYZE peal.device", connection)
            let second = try await Apps(connection).create(slug: "second", name: nil)
            // Each chunk has a deadline: a scan of all devices for each of its rows does not keep it.
            let (report, _) = try await importCSV(csv, into: second, connection)
            #expect(report.added == 45_000)
            let (again, _) = try await importCSV(csv, into: second, connection)
            #expect(again.updated == 45_000)
            for (index, condition) in [
                ("device_external_id", "external_id = 'user-7'"),
                ("device_installation", "installation_id = 'i-7'"),
                (
                    "device_token",
                    "channel = 'android' AND md5(token)::uuid = md5('token-7')::uuid AND token IS NOT NULL"
                ),
            ] {
                let lookUp = "EXPLAIN SELECT FROM peal.device WHERE app_id = \(second) AND \(condition)"
                let plan = try await rows(lookUp, connection)
                #expect(plan.joined().contains(index), "\(plan)")
            }
        }
    }

    /// They are taken so while the first rows of a table are on their way. A scan of the chunk for each device, or for each
    /// of its own rows, does not keep the chunk's deadline.
    @Test func `rows are looked up by index while the statistics call the table empty`() async throws {
        try await withDatabase { database in
            var configuration = database.configuration()
            // A chunk takes half a second, and with such a scan a quarter of a minute.
            configuration.statementDeadline = .seconds(8)
            let connection = try await PostgresConnection.connect(configuration)
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            _ = try await importCSV(Self.installations(25_000, token: "token"), into: app, connection)
            _ = try await rows("UPDATE pg_class SET reltuples = 0 WHERE oid = 'peal.device'::regclass", connection)
            let (report, _) = try await importCSV(Self.installations(80_000, token: "token"), into: app, connection)
            #expect(report.updated == 25_000 && report.added == 55_000)
            let (rotated, _) = try await importCSV(Self.installations(80_000, token: "new"), into: app, connection)
            #expect(rotated.updated == 80_000)
        }
    }

    /// So many Android devices, each with an installation.
    private static func installations(_ count: Int, token: String) -> String {
        var csv = "channel,token,external_id,installation_id\n"
        for number in 0..<count { csv += "android,\(token)-\(number),user-\(number),i-\(number)\n" }
        return csv
    }

    /// A plain join read the chunk once for each device: 26 s for the second chunk of a first import.
    @Test func `known devices are changed one look-up a row while nothing is known of the table`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            var csv = "channel,token\n"
            for number in 0..<25_000 { csv += "android,token-\(number)\n" }
            _ = try await importCSV(csv, into: app, connection)
            try await connection.execute("BEGIN")
            _ = try await connection.query(SQLText.adminImportPlan)
            _ = try await connection.query(SQLText.adminImportStage)
            try await connection.execute(
                "INSERT INTO pg_temp.device_import (line, channel, token) SELECT n, 'android', 'new-' || n FROM generate_series(1, 20000) AS n"
            )
            let changes: [(SQLStatement, PostgresParameters)] = [
                (SQLText.adminImportUpdateDevices, [.app(app), .texts([]), .texts([])]),
                (SQLText.adminImportFreeInstallation, [.app(app)]),
            ]
            for (statement, parameters) in changes {
                let explain = SQLStatement(name: "test", text: "EXPLAIN " + statement.text)
                let rows = try await connection.query(explain, parameters)
                let plan = try rows.indices.map { row throws(PostgresError) in try rows.text(row, 0) }
                    .joined(separator: "\n")
                #expect(plan.contains("Tid Scan on device") && !plan.contains("Materialize"), "\(plan)")
            }
            try await connection.execute("ROLLBACK")
        }
    }

    @Test func `rows before a given line are passed over`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let file = try TemporaryFile("channel,token\nandroid,a\nandroid,b\nandroid,c\n")
            let report = try await DeviceImport(app: app, connection: connection)
                .run(path: file.path, firstLine: 3) { _, _, _ in }
            #expect(report.added == 2)
        }
    }

    @Test func `a file that is cut off says where, and what came before it is kept`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            var csv = "channel,token,tags\n"
            for number in 0..<25_000 { csv += "android,token-\(number),\n" }
            csv += "android,last,\"{\"\"a"
            let file = try TemporaryFile(csv)
            let failure = await #expect(throws: DeviceImport.Failure.self) {
                try await DeviceImport(app: app, connection: connection).run(path: file.path) { _, _, _ in }
            }
            let error = failure.map { CommandError(describing: $0) }
            #expect(error?.status == .refused)
            #expect(error?.location.contains("line 25002") == true)
            let stored = try await rows("SELECT count(*)::text FROM peal.device", connection)
            #expect(stored == ["\(failure?.report.added ?? -1)"])
        }
    }

    @Test func `tag columns change those tags and leave the others`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let tags = #""{""plan"":""pro"",""city"":""izmir"",""vip"":true}""#
            _ = try await importCSV("channel,token,tags\nandroid,a,\(tags)\n", into: app, connection)
            _ = try await importCSV("channel,token,tag.plan,tag.city\nandroid,a,free,\n", into: app, connection)
            let stored = try await rows("SELECT tags::text FROM peal.device", connection)
            #expect(stored == [#"{"vip": true, "plan": "free"}"#])
        }
    }

    @Test func `a column that the file lacks keeps its value, an empty field clears it`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let whole = "channel,token,external_id,locale\nandroid,a,u1,de\n"
            _ = try await importCSV(whole, into: app, connection)
            _ = try await importCSV("channel,token,locale\nandroid,a,\n", into: app, connection)
            let stored = try await rows(
                "SELECT concat_ws('|', external_id, coalesce(locale, 'none')) FROM peal.device",
                connection
            )
            #expect(stored == ["u1|none"])
        }
    }

    @Test func `two imports of the same tokens in opposite order both end well`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let other = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let lines = (0..<2_000).map { "android,token-\($0),inst-\($0)\n" }
            let header = "channel,token,installation_id\n"
            for _ in 0..<3 {
                let first = Task { try await importCSV(header + lines.joined(), into: app, connection).0 }
                let second = Task { try await importCSV(header + lines.reversed().joined(), into: app, other).0 }
                let reports = try await (first.value, second.value)
                #expect(reports.0.added + reports.0.updated == 2_000)
                #expect(reports.1.added + reports.1.updated == 2_000)
            }
            #expect(try await rows("SELECT count(*)::text FROM peal.device", connection) == ["2000"])
        }
    }

    @Test func `an installation that goes over to another channel goes over whole`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let app = try await Apps(connection).create(slug: "shop", name: nil)
            let ios = "channel,token,voip_token,installation_id\nios,\(token(1)),\(token(2)),i\n"
            _ = try await importCSV(ios, into: app, connection)
            _ = try await importCSV("channel,token,installation_id\nandroid,a,i\n", into: app, connection)
            let stored = try await rows(
                "SELECT concat_ws('|', channel, route, token, coalesce(voip_token, 'none')) FROM peal.device",
                connection
            )
            #expect(stored == ["android|3|a|none"])
        }
    }

    @Test func `the same token in two apps is two devices`() async throws {
        try await withDatabase { database in
            let connection = try await database.connect()
            let shop = try await Apps(connection).create(slug: "shop", name: nil)
            let news = try await Apps(connection).create(slug: "news", name: nil)
            for app in [shop, news] {
                let (report, _) = try await importCSV("channel,token\nandroid,a\n", into: app, connection)
                #expect(report.added == 1)
            }
        }
    }
}
