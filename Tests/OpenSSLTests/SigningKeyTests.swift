import OpenSSL
import Testing

@Suite struct SigningKeyTests {
    static let ec = makePEM(.es256)
    static let rsa = makePEM(.rs256)

    private static func makePEM(_ algorithm: SignatureAlgorithm) -> String {
        // A key that cannot be made shows in every test of the suite.
        (try? SigningKey.makePEM(algorithm)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }

    /// What copy and paste make of a key: name, and the change.
    static let disfigurements: [(name: String, change: @Sendable (String) -> String)] = [
        ("as it is", { $0 }),
        ("line ends of Windows", { $0.replacing("\n", with: "\r\n") }),
        ("no last line end", { String($0.dropLast()) }),
        ("base64 in one line", { oneLine($0, "") }),
        ("spaces in place of line ends", { $0.replacing("\n", with: " ") }),
        ("literal backslash-n pairs", { $0.replacing("\n", with: "\\n") }),
        ("literal backslash-r-backslash-n", { $0.replacing("\n", with: "\\r\\n") }),
        ("two blank lines before", { "\n\n" + $0 }),
        ("a remark before", { "Key of the app\n" + $0 }),
        ("blanks around", { "  \t" + $0 + "  \n" }),
    ]

    private static func oneLine(_ pem: String, _ joint: String) -> String {
        let lines = pem.split(separator: "\n")
        return lines[0] + "\n" + lines.dropFirst().dropLast().joined(separator: joint) + "\n" + lines[lines.count - 1]
            + "\n"
    }

    @Test(arguments: [SignatureAlgorithm.es256, .rs256], 0..<disfigurements.count)
    func `a key loads and signs whatever copy and paste did to it`(algorithm: SignatureAlgorithm, number: Int) throws {
        let original = algorithm == .es256 ? Self.ec : Self.rsa
        let pem = Array(Self.disfigurements[number].change(original).utf8)
        let key = try SigningKey(pem: pem, algorithm: algorithm, purpose: "the key")
        let message = Array("message".utf8)
        let verifier = try VerifyingKey(privatePEM: Array(original.utf8), algorithm: algorithm)
        let signature = try key.sign(message)
        #expect(signature.count == (algorithm == .es256 ? 64 : 256))
        #expect(try verifier.verify(signature, of: message))
        #expect(try !verifier.verify(signature, of: message + [0]))
    }

    @Test func `a SEC1 key is taken too`() throws {
        let key = try SigningKey(pem: Array(FixedKeys.sec1.utf8), algorithm: .es256, purpose: "the APNs key")
        #expect(try key.sign([1, 2, 3]).count == 64)
    }

    @Test(arguments: [
        ("a certificate", FixedKeys.certificate, "it is a certificate"),
        ("an RSA key", rsa, "but it is an RSA key of 2048 bits"),
        ("a P-384 key", FixedKeys.p384, "but it is an EC key on P-384"),
        ("an encrypted key", FixedKeys.encrypted, "encrypted with a passphrase"),
        ("a public key", FixedKeys.publicKey, "it is a public key"),
        ("an empty file", "", "it is empty"),
        ("blanks", " \n\t\n", "it is empty"),
        ("DER", "\u{30}\u{81}\u{01}", "it is binary"),
        ("words", "hello", "no complete BEGIN and END lines (5 bytes)"),
        ("half a key", String(ec.prefix(100)), "no complete BEGIN and END lines"),
    ])
    func `a wrong APNs key is refused with what was found`(what: String, text: String, finding: String) {
        let error = #expect(throws: OpenSSLError.self) {
            try SigningKey(pem: Array(text.utf8), algorithm: .es256, purpose: "the APNs key of app shop")
        }
        #expect(error?.code == .unusableKey)
        #expect(error?.message.contains(finding) == true, "\(error?.message ?? "")")
        #expect(error?.message.hasPrefix("the APNs key of app shop") == true)
    }

    @Test func `an EC key where Google wants RSA is named`() {
        let error = #expect(throws: OpenSSLError.self) {
            try SigningKey(pem: Array(Self.ec.utf8), algorithm: .rs256, purpose: "private_key")
        }
        #expect(
            error?.message
                == "private_key must be an RSA key of at least 2048 bits (RS256), but it is an EC key on P-256"
        )
    }

    @Test(arguments: [ec, rsa])
    func `a damaged key is refused when it is loaded`(pem: String) {
        let algorithm: SignatureAlgorithm = pem == Self.ec ? .es256 : .rs256
        var lines = pem.split(separator: "\n").map(String.init)
        lines[1].removeLast(10)
        let text = lines.joined(separator: "\n")
        let error = #expect(throws: OpenSSLError.self) {
            try SigningKey(pem: Array(text.utf8), algorithm: algorithm, purpose: "the key")
        }
        #expect(error?.message.contains("the key is damaged") == true, "\(error?.message ?? "")")
    }

    @Test func `no message repeats key material`() throws {
        let half = String(Self.ec.prefix(120))
        let error = #expect(throws: OpenSSLError.self) {
            try SigningKey(pem: Array(half.utf8), algorithm: .es256, purpose: "the key")
        }
        let material = Self.ec.split(separator: "\n")[1].prefix(20)
        #expect(error?.message.contains(material) == false)
    }

    @Test func `a token has three parts and carries its claims`() throws {
        let key = try SigningKey(pem: Array(Self.ec.utf8), algorithm: .es256, purpose: "the key")
        let verifier = try VerifyingKey(privatePEM: Array(Self.ec.utf8), algorithm: .es256)
        let header = Array(#"{"alg":"ES256","kid":"ABC123DEFG"}"#.utf8)
        let claims = Array(#"{"iss":"DEF123GHIJ","iat":1700000000}"#.utf8)
        let token = try JSONWebToken.make(header: header, claims: claims, signedWith: key)
        #expect(token.split(separator: UInt8(ascii: ".")).count == 3)
        #expect(!token.contains(UInt8(ascii: "=")))
        let content = try #require(try JSONWebToken.verified(token, with: verifier))
        #expect(content.header == header && content.claims == claims)
        var forged = token
        forged[token.count / 3] ^= 1
        #expect(try JSONWebToken.verified(forged, with: verifier) == nil)
        #expect(try JSONWebToken.verified(Array("a.b".utf8), with: verifier) == nil)
    }

    @Test func `a hundred signatures are padded to 64 bytes each`() throws {
        let key = try SigningKey(pem: Array(Self.ec.utf8), algorithm: .es256, purpose: "the key")
        let verifier = try VerifyingKey(privatePEM: Array(Self.ec.utf8), algorithm: .es256)
        for number in 0..<100 {
            let signature = try key.sign([UInt8(number)])
            #expect(signature.count == 64)
            #expect(try verifier.verify(signature, of: [UInt8(number)]))
        }
    }
}
