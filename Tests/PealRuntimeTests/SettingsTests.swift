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

    @Test(arguments: [
        hex, hex.uppercased(), "  \(hex)\n", "Dw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8=",
    ])
    func `a master key is 64 hex digits or base64`(text: String) throws {
        let key = try Settings(variables: ["PEAL_MASTER_KEY": text]).masterKey()
        #expect(key?.bytes == [UInt8](repeating: 15, count: 32))
    }

    @Test(arguments: [
        ("abc", "not 32 bytes"), ("0f0f", "is 2 bytes"), ("  ", "is empty"), ("\(hex) \(hex)", "white space"),
    ])
    func `a bad master key is refused without showing it`(text: String, problem: String) {
        let error = #expect(throws: CommandError.self) {
            try Settings(variables: ["PEAL_MASTER_KEY": text]).masterKey()
        }
        #expect(error?.status == .refused)
        #expect(error?.description.contains(problem) == true, "\(String(describing: error))")
        #expect(error?.description.contains("openssl rand -hex 32") == true)
    }

    @Test func `two master keys at once are refused, and a file that is missing is named`() {
        let both = Settings(variables: ["PEAL_MASTER_KEY": Self.hex, "PEAL_MASTER_KEY_FILE": "/k"])
        #expect(throws: CommandError.self) { try both.masterKey() }
        let missing = Settings(variables: ["PEAL_MASTER_KEY_FILE": "/nonexistent/master.key"])
        let error = #expect(throws: CommandError.self) { try missing.masterKey() }
        #expect(error?.description.contains("/nonexistent/master.key") == true)
    }

    @Test func `a variable that means nothing is found, with the one that was meant`() {
        let settings = Settings(variables: ["PEAL_DATABSE_URL": "x", "PATH": "/bin"])
        #expect(settings.unknownVariables.map(\.name) == ["PEAL_DATABSE_URL"])
        #expect(settings.unknownVariables.first?.nearest == "PEAL_DATABASE_URL")
    }
}
