import OpenSSL
import ProviderSimulator
import PushCore
import Testing

@Suite struct ProviderTokenTests {
    private func answer(_ fixture: Fixture, _ client: RawClient, token: String) throws -> RawClient.Answer {
        try client.answer(
            "POST",
            Fixture.path(Fixture.token()),
            headers: try fixture.alertHeaders(token: token),
            body: Fixture.alert
        )
    }

    private func reason(_ name: String) -> String { "{\"reason\":\"\(name)\"}" }

    @Test func `a token of exactly one hour is still good, a second later it is not`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect()
        let token = try fixture.providerToken(issuedAt: Fixture.now - 3600)
        #expect(try answer(fixture, client, token: token).status == 200)
        fixture.simulator.clock.advance(by: .seconds(1))
        let refused = try answer(fixture, client, token: token)
        #expect(refused.status == 403)
        #expect(refused.text == reason("ExpiredProviderToken"))
    }

    @Test func `an expired token may spoil its connection`() throws {
        let fixture = try Fixture { $0.apns.expiredTokenSpoilsConnection = true }
        let client = try fixture.connect()
        _ = try answer(fixture, client, token: try fixture.providerToken(issuedAt: Fixture.now - 3601))
        let fresh = try fixture.providerToken()
        #expect(try answer(fixture, client, token: fresh).text == reason("ExpiredProviderToken"))
        #expect(try answer(fixture, try fixture.connect(), token: fresh).status == 200)
    }

    @Test(arguments: ["keyID", "teamID", "future", "algorithm", "form", "padding"])
    func `a token that does not fit is invalid`(fault: String) throws {
        let fixture = try Fixture()
        let token =
            switch fault {
            case "keyID": try fixture.providerToken(keyID: "WRONGKEY01")
            case "teamID": try fixture.providerToken(teamID: "WRONGTEAM1")
            case "future": try fixture.providerToken(issuedAt: Fixture.now + 5400)
            case "algorithm": try fixture.providerToken(algorithm: "HS256")
            case "form": "not.a-token"
            default: try fixture.providerToken() + "=="
            }
        let refused = try answer(fixture, try fixture.connect(), token: token)
        #expect(refused.status == 403)
        #expect(refused.text == reason("InvalidProviderToken"))
    }

    @Test func `a signature by another key is refused`() throws {
        let fixture = try Fixture()
        let known = fixture.simulator.credentials.apnsKeys[0]
        let pem = String(decoding: try SigningKey.makePEM(.es256), as: UTF8.self)
        let forged = APNsSigningKey(keyID: known.keyID, teamID: known.teamID, privateKeyPEM: pem)
        let token = try fixture.providerToken(key: forged)
        #expect(try answer(fixture, try fixture.connect(), token: token).text == reason("InvalidProviderToken"))
    }

    @Test func `a changed bit of the signature is noticed, and DER instead of r and s is refused`() throws {
        let fixture = try Fixture()
        let token = try fixture.providerToken()
        let parts = token.split(separator: ".")
        var signature = try #require(Base64URL.decode(parts[2]))
        #expect(signature.count == 64)
        signature[40] ^= 1
        let changed = "\(parts[0]).\(parts[1]).\(Base64URL.encode(signature))"
        #expect(try answer(fixture, try fixture.connect(), token: changed).text == reason("InvalidProviderToken"))
        // The same numbers in DER: a sequence of two integers, each with a leading zero so that it is positive.
        signature[40] ^= 1
        let start: [UInt8] = [0x02, 33, 0]
        let integers = start + signature[..<32] + start + signature[32...]
        let der = [0x30, UInt8(integers.count)] + integers
        let asDER = "\(parts[0]).\(parts[1]).\(Base64URL.encode(der))"
        #expect(try answer(fixture, try fixture.connect(), token: asDER).text == reason("InvalidProviderToken"))
        #expect(try answer(fixture, try fixture.connect(), token: token).status == 200)
    }

    @Test func `a token may change after twenty minutes and not before`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect()
        let first = try fixture.providerToken()
        #expect(try answer(fixture, client, token: first).status == 200)
        fixture.simulator.clock.advance(by: .seconds(1199))
        let second = try fixture.providerToken(issuedAt: Fixture.now + 1199)
        let refused = try answer(fixture, client, token: second)
        #expect(refused.status == 429)
        #expect(refused.text == reason("TooManyProviderTokenUpdates"))
        #expect(try answer(fixture, client, token: first).status == 200)
        fixture.simulator.clock.advance(by: .seconds(1))
        #expect(try answer(fixture, client, token: second).status == 200)
    }

    @Test func `tokens of one key over several connections count together if asked for`() throws {
        let strict = try Fixture { $0.apns.tokenUpdatesCountAcrossConnections = true }
        let first = try strict.providerToken()
        let second = try strict.providerToken()
        #expect(first != second)
        #expect(try answer(strict, try strict.connect(), token: first).status == 200)
        #expect(try answer(strict, try strict.connect(), token: first).status == 200)
        #expect(try answer(strict, try strict.connect(), token: second).text == reason("TooManyProviderTokenUpdates"))
        let lenient = try Fixture()
        #expect(try answer(lenient, try lenient.connect(), token: first).status == 200)
        #expect(try answer(lenient, try lenient.connect(), token: second).status == 200)
    }

    @Test func `a connection belongs to the key that it saw first`() throws {
        let fixture = try Fixture()
        let other = try fixture.simulator.makeAPNsKey()
        let client = try fixture.connect()
        #expect(try answer(fixture, client, token: try fixture.providerToken()).status == 200)
        let token = try fixture.providerToken(key: other)
        #expect(try answer(fixture, client, token: token).text == reason("UnrelatedKeyIdInToken"))
        #expect(try answer(fixture, try fixture.connect(), token: token).status == 200)
    }

    @Test func `a related key is taken on a connection of another, which goes on too`() throws {
        let fixture = try Fixture { $0.apns.tokenUpdateIntervalSeconds = 1200 }
        let first = try fixture.simulator.makeAPNsKey()
        let related = try fixture.simulator.makeAPNsKey(relatedTo: [first.keyID])
        let unrelated = try fixture.simulator.makeAPNsKey()
        let client = try fixture.connect()
        let token = try fixture.providerToken(key: first)
        #expect(try answer(fixture, client, token: token).status == 200)
        #expect(try answer(fixture, client, token: try fixture.providerToken(key: related)).status == 200)
        #expect(try answer(fixture, client, token: token).status == 200)
        let refused = try fixture.providerToken(key: unrelated)
        #expect(try answer(fixture, client, token: refused).text == reason("UnrelatedKeyIdInToken"))
    }

    @Test func `a key of the other environment is refused`() throws {
        let fixture = try Fixture()
        let key = try fixture.simulator.makeAPNsKey(environments: [.apnsSandbox])
        let token = try fixture.providerToken(key: key)
        #expect(try answer(fixture, try fixture.connect(), token: token).text == reason("BadEnvironmentKeyIdInToken"))
        #expect(try answer(fixture, try fixture.connect(.apnsSandbox), token: token).status == 200)
    }

    @Test func `a revoked key is refused on open connections too`() throws {
        let fixture = try Fixture()
        let client = try fixture.connect()
        let token = try fixture.providerToken()
        #expect(try answer(fixture, client, token: token).status == 200)
        fixture.simulator.revokeAPNsKey(fixture.simulator.keyID)
        #expect(try answer(fixture, client, token: token).text == reason("InvalidProviderToken"))
    }

    @Test func `a key given in the options is the one that counts`() throws {
        let pem = String(decoding: try SigningKey.makePEM(.es256), as: UTF8.self)
        let given = APNsSigningKey(keyID: "GIVENKEY01", teamID: "GIVENTEAM1", privateKeyPEM: pem)
        let fixture = try Fixture { $0.apns.keys = [given] }
        #expect(fixture.simulator.keyID == "GIVENKEY01")
        #expect(try answer(fixture, try fixture.connect(), token: try fixture.providerToken()).status == 200)
    }
}
