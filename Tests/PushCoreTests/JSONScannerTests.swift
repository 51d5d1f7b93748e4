import PushCore
import TestSupport
import Testing

@Suite struct JSONScannerTests {
    private func tokens(_ bytes: [UInt8]) -> [JSONScanner.Token] {
        var scanner = JSONScanner()
        var tokens: [JSONScanner.Token] = []
        while let token = scanner.next(in: bytes.span) {
            tokens.append(token)
        }
        return tokens
    }

    @Test func `keys, texts and literals are told apart`() {
        let text = #"{"a" : "x\"y", "b":[12,true,"c"]}"#
        #expect(
            tokens(Array(text.utf8)) == [
                .beginObject, .key(2..<3), .string(8..<12), .key(16..<17), .beginArray, .literal(20..<22),
                .literal(23..<27), .string(29..<30), .endArray, .endObject,
            ]
        )
    }

    @Test(arguments: [
        "", "<html>[busy]</html>", "not json [", "}}}}]]", #"{"a"#, #"{"a\"#, "\"", "\\", "::::,,,,", "{{{{[[[[",
    ])
    func `rubbish ends and does no harm`(text: String) {
        #expect(tokens(Array(text.utf8)).count <= text.utf8.count)
    }

    @Test func `random bytes end and keep their ranges within the text`() {
        var random = SeededGenerator(seed: 7)
        let alphabet = Array("{}[]\",:\\ ab1\u{0}é".utf8)
        for _ in 0..<5_000 {
            let bytes = (0..<Int.random(in: 0...60, using: &random)).map { _ in
                Bool.random(using: &random)
                    ? alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
                    : UInt8.random(in: 0...255, using: &random)
            }
            for token in tokens(bytes) {
                switch token {
                case .key(let range), .string(let range), .literal(let range):
                    #expect(range.lowerBound >= 0 && range.upperBound <= bytes.count)
                case .beginObject, .endObject, .beginArray, .endArray: break
                }
            }
            _ = try? JSONValue.parse(bytes)
        }
    }

    @Test func `whole numbers are read, and nothing else`() {
        func number(_ text: String) -> Int64? { Array(text.utf8).span.wholeNumber(at: 0..<text.utf8.count) }
        #expect(number("1767225600000") == 1_767_225_600_000)
        #expect(number("-5") == -5)
        #expect(number("9223372036854775807") == .max)
        for text in ["", "-", "1.5", "1e3", "x", "9223372036854775808", "99999999999999999999999"] {
            #expect(number(text) == nil)
        }
    }
}
