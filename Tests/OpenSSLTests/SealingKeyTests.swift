import OpenSSL
import Testing

@Suite struct SealingKeyTests {
    private let key: SealingKey
    private let secret = Array("-----BEGIN PRIVATE KEY-----".utf8)
    private let place = Array("credential/7/secret".utf8)

    init() throws {
        key = try SealingKey(bytes: Array(0..<32))
    }

    @Test(arguments: [0, 1, 15, 16, 17, 4096])
    func `what was sealed opens again`(count: Int) throws {
        let plain = try SecureRandom.bytes(count)
        let sealed = try key.seal(plain, associated: place)
        #expect(sealed.count == count + SealingKey.overheadBytes)
        #expect(try key.open(sealed, associated: place) == plain)
    }

    @Test func `the same secret is sealed differently each time`() throws {
        #expect(try key.seal(secret, associated: place) != key.seal(secret, associated: place))
    }

    @Test func `a sealed value does not open in another row`() throws {
        let sealed = try key.seal(secret, associated: place)
        let error = #expect(throws: OpenSSLError.self) {
            try key.open(sealed, associated: Array("credential/8/secret".utf8))
        }
        #expect(error?.code == .sealBroken)
    }

    @Test func `another master key is named as such`() throws {
        let other = try SealingKey(bytes: Array(1..<33))
        let sealed = try key.seal(secret, associated: place)
        let error = #expect(throws: OpenSSLError.self) { try other.open(sealed, associated: place) }
        #expect(error?.code == .wrongSealingKey)
        #expect(error?.message.contains(key.identifier) == true && error?.message.contains(other.identifier) == true)
    }

    @Test func `no changed byte goes unnoticed`() throws {
        let sealed = try key.seal(secret, associated: place)
        for index in sealed.indices {
            var changed = sealed
            changed[index] ^= 0x40
            #expect(throws: OpenSSLError.self) { try key.open(changed, associated: place) }
        }
        for count in 0..<sealed.count {
            #expect(throws: OpenSSLError.self) { try key.open(Array(sealed.prefix(count)), associated: place) }
        }
    }

    @Test func `the key is taken as hex and as base64`() throws {
        let hex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        #expect(try SealingKey(text: hex + "\n").identifier == key.identifier)
        #expect(try SealingKey(text: base64).identifier == key.identifier)
        // sha256sum of the 32 bytes.
        #expect(key.identifier == "630dcd29")
    }

    @Test(arguments: ["", "abc", "00112233", String(repeating: "z", count: 64), String(repeating: "A", count: 40)])
    func `anything else is refused without being repeated`(text: String) {
        let error = #expect(throws: OpenSSLError.self) { try SealingKey(text: text) }
        #expect(error?.code == .unusableKey)
        #expect(text.isEmpty || error?.message.contains(text) == false)
    }

    @Test func `SHA-256 of nothing is the known one`() {
        #expect(sha256([]).prefix(4) == [0xE3, 0xB0, 0xC4, 0x42])
    }
}
