import PealRuntime
import Testing

@Suite struct SettingsTests {
    private static let hex = String(repeating: "0f", count: 32)

    @Test func `a missing database says which variable to set`() {
        let error = #expect(throws: CommandError.self) { try Settings(variables: [:]).requireDatabaseURL() }
        #expect(error?.status == .databaseUnreachable)
        #expect(error?.description.contains("PEAL_DATABASE_URL") == true)
    }

    @Test func `the direct database falls back to the ordinary one`() throws {
        #expect(try Settings(variables: ["PEAL_DATABASE_URL": "a"]).requireDirectDatabaseURL() == "a")
        let both = Settings(variables: ["PEAL_DATABASE_URL": "a", "PEAL_DIRECT_DATABASE_URL": "b"])
        #expect(try both.requireDirectDatabaseURL() == "b")
    }

    @Test func `a master key comes from a variable, and a bad one is refused without showing it`() throws {
        #expect(try Settings(variables: ["PEAL_MASTER_KEY": Self.hex]).masterKey() != nil)
        #expect(try Settings(variables: [:]).masterKey() == nil)
        let error = #expect(throws: CommandError.self) {
            try Settings(variables: ["PEAL_MASTER_KEY": "0f0e"]).masterKey()
        }
        #expect(error?.status == .refused)
        #expect(error?.description.contains("PEAL_MASTER_KEY") == true)
        #expect(error?.description.contains("0f0e") == false)
    }

    @Test func `two master keys at once are refused, and a file that is missing is named`() {
        let both = Settings(variables: ["PEAL_MASTER_KEY": Self.hex, "PEAL_MASTER_KEY_FILE": "/k"])
        #expect(throws: CommandError.self) { try both.masterKey() }
        let missing = Settings(variables: ["PEAL_MASTER_KEY_FILE": "/nonexistent/master.key"])
        let error = #expect(throws: CommandError.self) { try missing.masterKey() }
        #expect(error?.description.contains("/nonexistent/master.key") == true)
    }

    @Test(arguments: ["/nonexistent/ca.pem", "/dev/null"])
    func `a CA file that cannot be used is named and refused`(path: String) throws {
        let error = #expect(throws: CommandError.self) {
            try Settings(variables: ["PEAL_CA_FILE": path]).usableCAFile()
        }
        #expect(error?.status == .refused)
        #expect(error?.description.contains(path) == true && error?.description.contains("PEAL_CA_FILE") == true)
        #expect(try Settings(variables: [:]).usableCAFile() == nil)
    }

    @Test func `results are kept for so many days, and a number that would lose them is refused`() throws {
        #expect(try Settings(variables: [:]).retentionDays() == nil)
        #expect(try Settings(variables: ["PEAL_RETENTION_DAYS": "90"]).retentionDays() == 90)
        for text in ["0", "-1", "3651", "90d", "1.5", " "] {
            let settings = Settings(variables: ["PEAL_RETENTION_DAYS": text])
            let error = #expect(throws: CommandError.self) { try settings.retentionDays() }
            #expect(error?.status == .usage)
            #expect(error?.description.contains("PEAL_RETENTION_DAYS") == true)
        }
    }

    @Test func `a variable that means nothing is found, with the one that was meant`() {
        let settings = Settings(variables: ["PEAL_DATABSE_URL": "x", "PATH": "/bin"])
        #expect(settings.unknownVariables.map(\.name) == ["PEAL_DATABSE_URL"])
        #expect(settings.unknownVariables.first?.nearest == "PEAL_DATABASE_URL")
    }
}
