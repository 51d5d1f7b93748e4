@testable import ProviderSimulator
import Testing

@Suite struct JSONTextTests {
    @Test(arguments: [
        "{}", "{\"a\":1}", " {\"a\" : [1, -2.5e+3, true, false, null, \"x\\u00e9\\n\"]} ", "{\"a\":{\"b\":{}}}",
        "{\"é\":\"🎉\"}",
    ])
    func `good texts are read both ways`(text: String) {
        let bytes = Array(text.utf8)
        #expect(JSONText.shape(of: bytes) == .object(hasAps: false))
        #expect(JSONText.parse(bytes)?.members != nil)
    }

    @Test(arguments: [
        "", "{", "{]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{\"a\":01}", "{\"a\":1.}", "{\"a\":+1}",
        "{\"a\":tru}",
        "{\"a\":\"\u{1}\"}", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12g4\"}", "{} x", "{\"a\":'b'}", "{\"a\":\"b}",
        "{\"a\":.5}", "{\"a\":-}",
    ])
    func `bad texts are refused both ways`(text: String) {
        let bytes = Array(text.utf8)
        #expect(JSONText.shape(of: bytes) == .invalid)
        #expect(JSONText.parse(bytes) == nil)
    }

    @Test func `bytes that are not UTF-8 are refused`() {
        let bytes = Array("{\"a\":\"".utf8) + [0xFF] + Array("\"}".utf8)
        #expect(JSONText.shape(of: bytes) == .invalid)
        #expect(JSONText.parse(bytes) == nil)
    }

    @Test func `nesting has a limit`() {
        let deep = String(repeating: "[", count: 65) + String(repeating: "]", count: 65)
        let shallow = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
        #expect(JSONText.shape(of: Array(deep.utf8)) == .invalid)
        #expect(JSONText.parse(Array(deep.utf8)) == nil)
        #expect(JSONText.shape(of: Array(shallow.utf8)) == .notObject)
        #expect(JSONText.parse(Array(shallow.utf8)) != nil)
    }

    @Test func `aps counts at the top level only, and the last one decides`() {
        #expect(JSONText.shape(of: Array("{\"aps\":{}}".utf8)) == .object(hasAps: true))
        #expect(JSONText.shape(of: Array("{\"x\":{\"aps\":{}}}".utf8)) == .object(hasAps: false))
        #expect(JSONText.shape(of: Array("{\"aps\":{},\"aps\":1}".utf8)) == .object(hasAps: false))
        #expect(JSONText.shape(of: Array("{\"apz\":{}}".utf8)) == .object(hasAps: false))
    }

    @Test func `escapes and surrogate pairs become text`() {
        let tree = JSONText.parse(Array("{\"a\":\"\\ud83c\\udf89\\u0041\\/\\t\"}".utf8))
        #expect(tree?["a"]?.string == "🎉A/\t")
        #expect(JSONText.parse(Array("{\"a\":\"\\ud83c\"}".utf8)) == nil)
    }
}
