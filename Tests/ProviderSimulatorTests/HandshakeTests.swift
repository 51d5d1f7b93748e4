import OpenSSL
import ProviderSimulator
import Testing

@Suite struct HandshakeTests {
    private func failure(of fault: HandshakeFault) throws -> String {
        let fixture = try Fixture()
        fixture.simulator.control.set { $0.handshakeFaults = [.apnsProduction: fault] }
        let error = #expect(throws: (any Error).self) { try fixture.connect() }
        // The other roles shake hands as ever, and so does this one afterwards.
        _ = try fixture.connect(.apnsSandbox)
        fixture.simulator.control.reset()
        _ = try fixture.connect()
        return error.map { "\($0)" } ?? ""
    }

    @Test func `a handshake without a common protocol ends with its alert`() throws {
        #expect(try failure(of: .refusedALPN).contains("no application protocol"))
    }

    @Test func `a server that chooses no protocol is not taken for HTTP/2`() throws {
        #expect(try failure(of: .noALPN).contains("ALPN"))
    }

    @Test func `an expired certificate is shown`() throws {
        #expect(try failure(of: .expiredCertificate).contains("expired"))
    }

    @Test func `a certificate of another host is shown`() throws {
        #expect(try failure(of: .otherHost).contains("mismatch"))
    }

    @Test(arguments: ["localhost", "api.push.apple.com", "api.sandbox.push.apple.com", "fcm.googleapis.com"])
    func `the certificate is good for the providers' own names`(host: String) throws {
        let fixture = try Fixture()
        let port = fixture.simulator.endpoint(.apnsProduction).port
        #expect(try RawClient(port: port, caFile: fixture.simulator.caFile, host: host).announcedStreams == [1])
    }

    @Test func `a client certificate is demanded`() throws {
        #expect(try !failure(of: .clientCertificate).isEmpty)
    }

    @Test func `an ignored connection is never answered`() throws {
        let fixture = try Fixture()
        fixture.simulator.control.set { $0.ignoresNewConnections = [.apnsProduction] }
        #expect(throws: RawClient.Failure.self) {
            try RawClient(
                port: fixture.simulator.endpoint(.apnsProduction).port,
                caFile: fixture.simulator.caFile,
                handshakeMilliseconds: 100
            )
        }
        #expect(fixture.simulator.ledger.totals.handshakesFailed == 0)
        #expect(fixture.simulator.ledger.totals.connectionsOpen == 1)
    }

    @Test func `answers carry the date of the simulator's clock`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect()
        let token = try fixture.providerToken()
        for (word, status) in [("ab", 200), ("deadbeef", 410)] {
            let headers = try fixture.alertHeaders(token: token)
            let answer = try client.answer(
                "POST",
                Fixture.path(Fixture.token(word)),
                headers: headers,
                body: Fixture.alert
            )
            #expect(answer.status == status)
            #expect(answer.headers["date"] == "Thu, 01 Jan 2026 00:00:00 GMT")
        }
        fixture.simulator.clock.advance(by: .seconds(5400))
        let later = try fixture.connect(.oauth).answer("POST", "/token", body: "x")
        #expect(later.headers["date"] == "Thu, 01 Jan 2026 01:30:00 GMT")
    }
}
