import PealRuntime
import Testing

@Suite struct DeviceRowReaderTests {
    private static let ios = String(repeating: "ab", count: 32)

    private func read(_ csv: String) throws -> [Result<DeviceRow, RefusedRow>] {
        var results: [Result<DeviceRow, RefusedRow>] = []
        var reader: DeviceRowReader?
        var parser = CSVParser()
        let take = { (row: CSVParser.Row) in
            if let reader {
                results.append(reader.read(row))
            } else {
                reader = DeviceRowReader(header: try DeviceHeader(row), timezones: ["Europe/Berlin"])
            }
        }
        try parser.parse(Array(csv.utf8)[...], take)
        try parser.finish(take)
        return results
    }

    private func device(_ csv: String) throws -> DeviceRow {
        try #require(try read(csv).first).get()
    }

    private func refusal(_ csv: String) throws -> RefusedRow? {
        guard case .failure(let refused) = try read(csv).last else { return nil }
        return refused
    }

    @Test func `every column is read`() throws {
        let device = try device(
            """
            channel,token,external_id,installation_id,environment,voip_token,tags,locale,timezone,app_version,os_version,model
            ios,\(Self.ios),user-1,inst-1,sandbox,cdcd,"{""plan"":""pro"",""n"":1}",de-DE,Europe/Berlin,1.2.3,18.1,"iPhone 15, Pro"
            """
        )
        #expect(device.channel == "ios")
        #expect(device.environment == "sandbox")
        #expect(device.token == Array(Self.ios.utf8))
        #expect(device.voipToken == Array("cdcd".utf8))
        #expect(device.externalID == Array("user-1".utf8))
        #expect(device.installationID == Array("inst-1".utf8))
        #expect(device.tags == Array(#"{"plan":"pro","n":1}"#.utf8))
        #expect(device.model == Array("iPhone 15, Pro".utf8))
        #expect(device.line == 2)
    }

    @Test(arguments: ["ABABABAB", "<abababab>", "<abab abab>", "abababab"])
    func `an APNs token is stored in one form`(token: String) throws {
        #expect(try device("channel,token\nios,\(token)\n").token == Array("abababab".utf8))
    }

    @Test(arguments: [64, 108, 160, 200])
    func `an APNs token may have any even number of digits`(digits: Int) throws {
        let token = String(repeating: "a", count: digits)
        #expect(try device("channel,token\nios,\(token)\n").token.count == digits)
    }

    @Test(arguments: [
        ("ios,\(String(repeating: "a", count: 63))", "63 hex digits"),
        ("ios,APA91b_-Qx", "is the channel right?"),
        ("windows,abc", "channel must be ios or android, found 'windows'"),
        (",abc", "channel is empty"),
        ("ios,", "token is empty"),
        ("ios,<>", "0 hex digits"),
        ("android,has space", "no FCM token"),
        ("android,(null)", "token is the word '(null)'"),
        ("android,None", "token is the word 'None'"),
        ("ios", "the row has 1 field, the header has 2: the file is cut off here"),
        ("ios,ab,cd", "the row has 3 fields, the header has 2"),
    ])
    func `a bad row is refused with its line and the reason`(row: String, reason: String) throws {
        let refused = try #require(try refusal("channel,token\nandroid,good\n\(row)"))
        #expect(refused.line == 3)
        #expect(refused.reason.contains(reason), "\(refused.reason)")
    }

    @Test(arguments: [
        ("external_id", "a\u{0}b", "external_id holds the character U+0000"),
        ("timezone", "Berlin", "timezone must be an IANA name"),
        ("tags", "[1]", "tags must be a JSON object"),
        ("tags", "{oops", "tags"),
        ("environment", "prod", "environment must be production or sandbox, found 'prod'"),
        ("external_id", String(repeating: "x", count: 1025), "external_id is longer than 1024 bytes"),
        ("external_id", "(null)", "external_id is the word '(null)'"),
        ("installation_id", "undefined", "installation_id is the word 'undefined'"),
        ("voip_token", "abab", "voip_token belongs to ios alone"),
    ])
    func `a bad value names its column`(column: String, value: String, reason: String) throws {
        let refused = try #require(try refusal("channel,token,\(column)\nandroid,t,\(value)\n"))
        #expect(refused.reason.hasPrefix(column))
        #expect(refused.reason.contains(reason), "\(refused.reason)")
    }

    @Test func `text that is not UTF-8 is refused`() throws {
        var parser = CSVParser()
        var results: [Result<DeviceRow, RefusedRow>] = []
        var header: DeviceHeader?
        try parser.parse((Array("channel,token,external_id\nandroid,t,".utf8) + [0xE9, 0x0A])[...]) { row in
            if let header {
                results.append(DeviceRowReader(header: header, timezones: []).read(row))
            } else {
                header = try DeviceHeader(row)
            }
        }
        guard case .failure(let refused) = results.first else {
            Issue.record("not refused")
            return
        }
        #expect(refused.reason == "external_id is not UTF-8: save the file as UTF-8")
    }

    @Test func `tag columns become tags, and win over the tags column`() throws {
        let both = try device("channel,token,tags,tag.plan,tag.city\nandroid,t,\"{\"\"plan\"\":1,\"\"n\"\":2}\",pro,\n")
        #expect(both.tags == Array(#"{"plan":"pro","n":2}"#.utf8))
        #expect(try device("channel,token,tag.plan\nandroid,t,\n").tags == nil)
    }

    @Test(arguments: [
        ("token,external_id", "column channel is missing"),
        ("channel,tokn", "column 'tokn' is not known (did you mean token?)"),
        ("channel,token,token", "column token is there twice"),
        ("channel,token,tag.a,tag.a", "column tag.a is there twice"),
    ])
    func `a wrong header is shown`(header: String, problem: String) {
        let error = #expect(throws: CommandError.self) { try read("\(header)\n") }
        #expect(error?.status == .refused)
        #expect(error?.what == problem)
        #expect(error?.location.contains(header.split(separator: ",").joined(separator: " | ")) == true)
    }
}
