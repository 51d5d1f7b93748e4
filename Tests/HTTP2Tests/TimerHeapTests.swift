import Testing

@testable import HTTP2

@Suite struct TimerHeapTests {
    @Test func `timers fall due in order of time, and none before its time`() {
        var heap = TimerHeap()
        let times = (0..<200).map { ($0 * 7919) % 1009 }.map { LoopTime(nanoseconds: Int64($0)) }
        for (number, time) in times.enumerated() { heap.add(.connection(UInt64(number)), at: time) }
        #expect(heap.popDue(at: LoopTime(nanoseconds: -1)) == nil)
        var due: [LoopTime] = []
        while case .connection(let number)? = heap.popDue(at: LoopTime(nanoseconds: 500)) {
            due.append(times[Int(number)])
        }
        #expect(due == times.filter { $0.nanoseconds <= 500 }.sorted())
        #expect(heap.earliest == times.filter { $0.nanoseconds > 500 }.min())
        while heap.popDue(at: .never) != nil {}
        #expect(heap.count == 0 && heap.earliest == nil)
    }

    @Test func `a ring keeps its order while it grows`() {
        let ring = Ring<Int>()
        var expected: [Int] = []
        for number in 0..<1000 {
            ring.append(number)
            expected.append(number)
            if number % 3 == 0 { #expect([ring.popFirst()] == [expected.removeFirst()]) }
        }
        #expect(ring.count == expected.count && ring.first == expected.first)
        #expect(ring.removeAll() == expected)
        #expect(ring.isEmpty && ring.popFirst() == nil)
    }

    @Test func `times stay within their range`() {
        #expect(LoopTime(nanoseconds: 1) + .seconds(Int64.max / 2) == .never)
        #expect(LoopTime(nanoseconds: 1) + .milliseconds(2) == LoopTime(nanoseconds: 2_000_001))
    }
}
