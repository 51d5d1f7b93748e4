import PushCore
import Testing

@Suite struct TextEncodingTests {
    @Test func `hex round trips and reads either case`() {
        let bytes: [UInt8] = [0, 1, 0x7F, 0xAB, 0xFF]
        #expect(Hex.encode(bytes) == "00017fabff")
        #expect(Hex.decode("00017FabFF") == bytes)
        #expect(Hex.decode("") == [])
        #expect(Hex.decode("0") == nil)
        #expect(Hex.decode("0g") == nil)
    }

    @Test(arguments: [
        ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
        ("foobar", "Zm9vYmFy"), ("\u{3fff}?", "47-_Pw"),
    ])
    func `base64url round trips without padding`(plain: String, encoded: String) {
        #expect(Base64URL.encode(plain.utf8) == encoded)
        #expect(Base64URL.decode(encoded) == Array(plain.utf8))
    }

    @Test func `standard base64 wants its padding and its alphabet`() {
        #expect(Base64URL.decodeStandard("47+/Pw==") == Array("\u{3fff}?".utf8))
        #expect(Base64URL.decodeStandard("47+/Pw") == nil)
        #expect(Base64URL.decodeStandard("47-_Pw==") == nil)
        #expect(Base64URL.decode("Zg==") == [0x66])
    }

    @Test(arguments: ["Z", "Zm9vY", "Zh", "Zg=", "Z=g=", "Zg===", "Zm9v=", "Zm 9", "Zm9v\n"])
    func `malformed base64url is refused`(text: String) {
        #expect(Base64URL.decode(text) == nil)
    }
}
