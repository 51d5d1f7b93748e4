import OpenSSL
import PushCore
import Testing

@testable import HTTP2

@Suite struct RequestBatchTests {
    private func all(_ selection: RequestSelection, count: Int) -> [UInt32] {
        var cursor = RequestCursor(selection, count: count)
        var indices: [UInt32] = []
        let expected = cursor.remaining
        while let index = cursor.next() { indices.append(index) }
        #expect(indices.count == expected && cursor.remaining == 0)
        return indices
    }

    @Test func `a selection is walked in order, each request once`() {
        #expect(all(.all, count: 3) == [0, 1, 2])
        #expect(all(.all, count: 0) == [])
        #expect(all(.indices([5, 0, 2]), count: 6) == [5, 0, 2])
        #expect(all(.notIn(bitmap: [0b0000_0101]), count: 10) == [1, 3, 4, 5, 6, 7, 8, 9])
        #expect(all(.notIn(bitmap: [0xFF, 0x02]), count: 10) == [8])
        #expect(all(.notIn(bitmap: []), count: 2) == [0, 1])
        #expect(all(.notIn(bitmap: [0xFF]), count: 8) == [])
    }

    @Test func `an index beyond the batch stops the program`() async {
        await #expect(processExitsWith: .failure) { _ = RequestCursor(.indices([2]), count: 2) }
    }

    @Test(arguments: ["a\nb", "a\rb", "a\0b", "\u{7F}"])
    func `bytes that HTTP forbids are refused before they reach a connection`(text: String) throws {
        var builder = RequestBatchBuilder(timeLimit: .seconds(1))
        #expect(throws: HTTP2Error.self) { try builder.addField("apns-topic", value: text) }
        #expect(throws: HTTP2Error.self) { try builder.addField(text, value: "x") }
        #expect(throws: HTTP2Error.self) { try builder.add(path: builder.store("/" + text), body: .none) }
        try builder.addOwnField("apns-id")
        #expect(throws: HTTP2Error.self) {
            try builder.add(path: builder.store("/"), ownValues: builder.store(text), body: .none)
        }
        #expect(builder.count == 0)
    }

    @Test(arguments: ["Apns-Topic", "", "a b", ":path"])
    func `header names are lower case and no pseudo-headers`(name: String) {
        var builder = RequestBatchBuilder(timeLimit: .seconds(1))
        #expect(throws: HTTP2Error.self) { try builder.addField(name, value: "x") }
    }

    @Test(arguments: ["", "no-slash", "/with space", "/ümlaut"])
    func `paths are absolute and ASCII`(path: String) {
        var builder = RequestBatchBuilder(timeLimit: .seconds(1))
        #expect(throws: HTTP2Error.self) { try builder.add(path: builder.store(path), body: .none) }
    }

    @Test func `seconds left without a deadline stop the program`() async {
        await #expect(processExitsWith: .failure) {
            var builder = RequestBatchBuilder(timeLimit: .seconds(1))
            _ = builder.makeBody(.secondsLeft)
        }
    }

    @Test(arguments: [0, 1, 9, 10, 99, 100, 4_294_967_295] as [UInt32])
    func `digits are those of the number`(number: UInt32) {
        let digits = Digits(number)
        #expect(String(decoding: (0..<digits.count).map { digits[$0] }, as: UTF8.self) == String(number))
    }

    @Test func `the authority leaves out the usual port and brackets IPv6`() throws {
        let tls = try TLSContext()
        #expect(PoolConfiguration(host: "api.push.apple.com", port: 443, tls: tls).authority == "api.push.apple.com")
        #expect(PoolConfiguration(host: "localhost", port: 8443, tls: tls).authority == "localhost:8443")
        #expect(PoolConfiguration(host: "::1", port: 443, tls: tls).authority == "[::1]")
    }
}
