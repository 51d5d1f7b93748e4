import Testing

@testable import HTTP2

@Suite struct StreamWindowTests {
    private func makeProven(maximum: Int = 1000, peer: Int = 1000) -> StreamWindow {
        var window = StreamWindow(initial: 1, maximum: maximum)
        window.peerAnnounced(peer)
        window.answered(status: 200)
        return window
    }

    @Test func `one stream until the first good answer, whatever the peer announced`() {
        var window = StreamWindow(initial: 1, maximum: 1000)
        window.peerAnnounced(1000)
        #expect(window.limit == 1 && window.isUntried)
        for status in [403, 401, 429, 500, 503] {
            window.answered(status: status)
            #expect(window.limit == 1 && !window.isUntried)
        }
        window.answered(status: 410)
        #expect(window.limit == 1000)
    }

    @Test func `the peer's limit is obeyed live, down to none`() {
        var window = makeProven()
        for limit in [1, 500, 0, 1500, 3] {
            window.peerAnnounced(limit)
            #expect(window.limit == min(limit, 1000))
        }
    }

    @Test func `overload halves once for all streams that report it, and growth is slow`() {
        var window = makeProven(peer: 800)
        window.overloaded()
        window.overloaded()
        #expect(window.limit == 400)
        for _ in 0..<399 { window.answered(status: 200) }
        #expect(window.limit == 400)
        window.answered(status: 200)
        #expect(window.limit == 415)
        window.overloaded()
        #expect(window.limit == 415)
        for _ in 0..<400 { window.answered(status: 200) }
        window.overloaded()
        #expect(window.limit == 207)
    }

    @Test func `overload never closes the window, and it opens again to its full width`() {
        var window = makeProven(maximum: 100, peer: 100)
        for _ in 0..<50 {
            for _ in 0..<200 { window.answered(status: 429) }
            window.overloaded()
        }
        #expect(window.limit == 1)
        for _ in 0..<6000 { window.answered(status: 200) }
        #expect(window.limit == 100)
    }

    @Test(arguments: [0, -5])
    func `a nonsensical configuration still lets one stream through`(number: Int) {
        var window = StreamWindow(initial: number, maximum: number)
        window.peerAnnounced(100)
        #expect(window.limit == 1)
    }
}
