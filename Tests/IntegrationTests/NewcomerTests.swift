import Glibc
import PealRuntime
import Postgres
import ProviderSimulator
import PushCore
import TestSupport
import Testing

/// The way of a newcomer, by commands alone, from an empty database to the results of a send.
@Suite struct NewcomerTests {
    @Test(.timeLimit(.minutes(4)))
    func `from an empty database to the results of a send by commands alone`() async throws {
        try await withScratchDirectory { directory in
            let simulator = try ProviderSimulator.start()
            defer { simulator.stop() }
            try simulator.writeCredentials(to: directory)
            try await withEmptyDatabase { database in
                let environment = [
                    "PEAL_DATABASE_URL": database.connectionString, "PEAL_MASTER_KEY": Pipeline.masterKeyText,
                    "PEAL_CA_FILE": simulator.caFile,
                ]
                try await prepare(environment, directory, simulator)
                try await withPeal(["worker"], environment: environment) { worker in
                    let sent = try await runPeal(
                        [
                            "send", "shop", "--audience", #"{"filter": {"tag.city": "izmir"}}"#, "--content",
                            #"{"title": "Hello"}"#, "--wait",
                        ],
                        environment: environment
                    )
                    #expect(sent.status == 0, "\(sent.output) \(worker.output)")
                }
                let connection = try await database.connect()
                let newest = SQLStatement(name: "test_newest", text: "SELECT id::text FROM peal.job")
                let job = try await connection.query(newest).text(0, 0)
                let status = try await runPeal(["job", "status", job], environment: environment)
                #expect(status.output.contains("completed"), "\(status.output)")
                let results = try await runPeal(["results", job, "--format", "csv"], environment: environment)
                #expect(results.output.split(separator: "\n").count == 4, "\(results.output)")
                #expect(results.output.contains("Unregistered"), "\(results.output)")
            }
        }
    }

    /// Everything before the send, each step a command that must succeed.
    private func prepare(
        _ environment: [String: String],
        _ directory: String,
        _ simulator: ProviderSimulator
    ) async throws {
        let hex = String(repeating: "0", count: 55)
        let file = "\(directory)/devices.csv"
        let rows = """
            channel,token,external_id,tag.city,locale
            ios,ab1234567\(hex),u1,izmir,tr-TR
            android,ok:one,u2,izmir,de-DE
            ios,deadbeef0\(hex),u3,izmir,
            android,ok:two,u4,bergama,
            """
        let apns = [
            "credential", "add", "shop", "apns", "--key", "\(directory)/apns-key.p8", "--key-id", simulator.keyID,
            "--team-id", simulator.teamID, "--topic", "com.example.shop", "--environment", "production", "--endpoint",
            simulator.endpoint(.apnsProduction).url,
        ]
        let fcm = [
            "credential", "add", "shop", "fcm", "--service-account", "\(directory)/service-account.json", "--endpoint",
            simulator.endpoint(.fcm).url,
        ]
        try await expectSuccess(["sh", "-c", "printf '%s\\n' \"$0\" > \(file)", rows], environment)
        for words in [["migrate"], ["app", "create", "shop"], apns, fcm, ["device", "import", "shop", file]] {
            try await expectSuccess(["peal"] + words, environment)
        }
    }

    private func expectSuccess(_ command: [String], _ environment: [String: String]) async throws {
        let result = try await runCommand(command, environment: environment)
        #expect(result.status == 0, "\(command.joined(separator: " ")): \(result.output)")
    }
}
