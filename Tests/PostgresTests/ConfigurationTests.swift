import Testing

@testable import Postgres

@Suite struct ConfigurationTests {
    @Test(arguments: [
        ("dbname=x", [PostgresHost()]),
        ("postgresql:///x", [PostgresHost()]),
        ("host=a port=1", [PostgresHost(host: "a", port: "1")]),
        ("postgresql://u:p@a:1,b:2/x", [PostgresHost(host: "a", port: "1"), PostgresHost(host: "b", port: "2")]),
        ("host=a,b port=7", [PostgresHost(host: "a", port: "7"), PostgresHost(host: "b", port: "7")]),
        (
            "host=a,b hostaddr=127.0.0.1,127.0.0.2",
            [PostgresHost(host: "a", address: "127.0.0.1"), PostgresHost(host: "b", address: "127.0.0.2")]
        ),
        ("postgresql://%2Ftmp%2Fsocket/x", [PostgresHost(host: "/tmp/socket")]),
    ])
    func `hosts are taken from strings and URIs`(text: String, hosts: [PostgresHost]) throws {
        #expect(try HostList.parse(text) == hosts)
    }

    @Test(arguments: ["host=a,b port=1,2,3", "host=a,,b", "host=a,b hostaddr=127.0.0.1", "nonsense", "postgresql://[x"])
    func `strings that do not fit are refused without being repeated`(text: String) {
        let error = #expect(throws: PostgresError.self) { try HostList.parse(text) }
        #expect(error?.code == .configuration)
        #expect(error?.description.contains(text) == false)
    }

    @Test func `a password never shows in the error`() {
        let error = #expect(throws: PostgresError.self) { try HostList.parse("password=hunter2 nonsense") }
        #expect(error?.description.contains("hunter2") == false)
    }
}
