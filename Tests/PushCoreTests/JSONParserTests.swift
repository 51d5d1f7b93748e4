import PushCore
import Testing

@Suite struct JSONParserTests {
    @Test(arguments: [
        "null", "true", "false", "0", "-0", "1", "1.0", "-1.50e+10", "1E400", "123456789012345678901234567890", #""""#,
        "[]", "{}", #"[1,[2,[3]],{"a":[]}]"#, #"{"b":1,"a":{"z":null,"y":""}}"#, #""é🎉\" \\ \u0007""#,
    ])
    func `what comes in goes out to the byte`(text: String) throws {
        #expect(try JSONValue.parse(text).compactText == text)
    }

    @Test func `spaces are dropped and escapes become text`() throws {
        let value = try JSONValue.parse(
            " { \"a\" :\t[ 1 ,\r\n true ] , \"b\" : \"\\u00e9\\ud83c\\udf89\\/\\b\\f\\n\\r\\t\" } "
        )
        #expect(value.compactText == #"{"a":[1,true],"b":"é🎉/\b\f\n\r\t"}"#)
    }

    @Test(arguments: [
        ("", "content", 0, "ends too early"),
        ("{", "content", 1, "needs a key in quotes"),
        (#"{"a"}"#, "content.a", 4, "needs a colon after the key"),
        (#"{"a":}"#, "content.a", 5, "is not JSON"),
        (#"{"a":1,}"#, "content", 7, "needs a key in quotes"),
        (#"{"a":1 "b":2}"#, "content", 7, "needs a comma or a closing brace"),
        ("[1,]", "content[1]", 3, "is not JSON"),
        ("[1 2]", "content", 3, "needs a comma or a closing bracket"),
        ("[1]x", "content", 3, "is followed by more text"),
        ("nul", "content", 0, "is not JSON"),
        ("NaN", "content", 0, "is not JSON"),
        ("01", "content", 0, "holds a number with a leading zero"),
        ("1.", "content", 0, "holds a number without digits after the point"),
        ("-", "content", 0, "holds a number without digits"),
        ("1e", "content", 0, "holds a number without an exponent"),
        ("+1", "content", 0, "is not JSON"),
        (#"{"a":{"b":"x}}"#, "content.a.b", 10, "has a text without its closing quote"),
        ("\"a\nb\"", "content", 2, "holds a control character that is not escaped"),
        (#""\x""#, "content", 1, "holds an unknown escape"),
        (#""\u12g4""#, "content", 5, "needs four hex digits after \\u"),
        (#""\ud83c""#, "content", 1, "holds half of a surrogate pair"),
        (#""\ud83c\u0041""#, "content", 1, "holds half of a surrogate pair"),
        (#""\udf89""#, "content", 1, "holds half of a surrogate pair"),
        (#"{"a":1,"\u0061":2}"#, "content.a", 7, "is given twice"),
        (#"{"a":["x\u0000"]}"#, "content.a[0]", 8, "holds U+0000, which cannot be stored"),
    ])
    func `what is not JSON is refused with its place`(text: String, path: String, offset: Int, problem: String) throws {
        let error = try #require(throws: JSONError.self) { try JSONValue.parse(text) }
        #expect(error.description == "\(path) \(problem) (at byte \(offset))")
    }

    @Test func `bytes that are not UTF-8 are refused`() throws {
        for bytes: [UInt8] in [[0xFF], [0xC3], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80]] {
            let error = try #require(throws: JSONError.self) { try JSONValue.parse([0x22] + bytes + [0x22]) }
            #expect(error.problem == "is not valid UTF-8")
        }
    }

    @Test func `32 levels are taken and 33 refused`() throws {
        func nested(_ levels: Int) -> String {
            String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
        }
        #expect(throws: Never.self) { try JSONValue.parse(nested(32)) }
        let error = try #require(throws: JSONError.self) { try JSONValue.parse(nested(33)) }
        #expect(error.problem == "is nested deeper than 32 levels")
        #expect(throws: JSONError.self) { try JSONValue.parse(String(repeating: "[", count: 1_000_000)) }
    }

    @Test func `keys are told apart by bytes`() throws {
        let composed = "{\"\u{E9}\":1,\"e\u{301}\":2}"
        #expect(try JSONValue.parse(composed).compactText == composed)
    }

    @Test func `a merge patch is applied as RFC 7386 says`() throws {
        let cases = [
            (#"{"a":"b"}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"b"}"#, #"{"b":"c"}"#, #"{"a":"b","b":"c"}"#),
            (#"{"a":"b","b":"c"}"#, #"{"a":null}"#, #"{"b":"c"}"#),
            (#"{"a":["b"]}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":{"b":"c"}}"#, #"{"a":{"b":"d","c":null}}"#, #"{"a":{"b":"d"}}"#),
            (#"{"a":"foo"}"#, #"{"a":{"bb":{"ccc":null}}}"#, #"{"a":{"bb":{}}}"#),
            (#"{}"#, #"{"a":[null]}"#, #"{"a":[null]}"#),
        ]
        for (target, patch, result) in cases {
            guard case .object(let target) = try JSONValue.parse(target),
                case .object(let patch) = try JSONValue.parse(patch)
            else { continue }
            #expect(JSONValue.object(target.merging(patch)).compactText == result)
        }
    }

    @Test func `a whole number is one by its spelling`() throws {
        func number(_ text: String) throws -> Int? {
            guard case .number(let number) = try JSONValue.parse(text) else { return nil }
            return number.wholeNumber
        }
        #expect(try number("7") == 7)
        #expect(try number("-7") == -7)
        #expect(try number("7.0") == nil)
        #expect(try number("7e0") == nil)
        #expect(try number("9223372036854775808") == nil)
    }
}
