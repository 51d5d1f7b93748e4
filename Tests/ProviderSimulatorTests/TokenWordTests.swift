import ProviderSimulator
import Testing

@Suite struct TokenWordTests {
    @Test func `words are eight hex digits and none is taken twice`() {
        let words = (TokenWords.all + TokenWords.numbered).compactMap(\.apns)
        #expect(words.allSatisfy { $0.wholeMatch(of: /[0-9a-f]{8}/) != nil })
        #expect(Set(words).count == words.count)
        let names = TokenWords.all.compactMap(\.fcm)
        #expect(Set(names).count == names.count)
    }

    @Test func `the document lists every word as it is`() throws {
        let path = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
        let text = try TemporaryFile.read("/\(path)/docs/simulator.md")
        for word in TokenWords.all + TokenWords.numbered {
            #expect(text.contains("| \(word.tableRow) |"), "docs/simulator.md lacks | \(word.tableRow) |")
        }
    }

    @Test(arguments: TokenWords.numbered)
    func `numbered words answer with their reason`(word: TokenWords.Word) throws {
        let fixture = try Fixture()
        let parts = word.meaning.split(separator: " ")
        let answer = try fixture.connect().answer(
            "POST",
            Fixture.path(Fixture.token(try #require(word.apns))),
            headers: try fixture.alertHeaders(),
            body: Fixture.alert
        )
        #expect(answer.status == Int(parts[0]))
        #expect(answer.text.hasPrefix("{\"reason\":\"\(parts[1])\""))
    }
}

extension TokenWords.Word {
    /// The cells of the word's row in the document.
    fileprivate var tableRow: String {
        let parameter = defaultParameter.map { $0 < 0 ? "" : String($0) } ?? ""
        let cells = [apns.map { "`\($0)`" } ?? "", fcm.map { "`\($0):`" } ?? "", parameter, meaning]
        return cells.joined(separator: " | ")
    }
}
