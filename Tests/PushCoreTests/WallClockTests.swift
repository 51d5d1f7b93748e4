import PushCore
import Testing

@Suite struct WallClockTests {
    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00.000000Z"),
            (.min, "-290308-12-21T19:59:05.224192Z"),
            (.max, "294247-01-10T04:00:54.775807Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_796_040_000_000_001, "2026-11-30T12:00:00.000001Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (4_107_542_399_000_000, "2100-02-28T23:59:59.000000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        ] as [(Int64, String)]
    )
    func `moments are written and read as RFC 3339`(microseconds: Int64, text: String) {
        let instant = WallClock.Instant(microsecondsSinceEpoch: microseconds)
        #expect(instant.description == text)
        if text.utf8.count == 27 { #expect(WallClock.Instant(text) == instant) }
    }

    @Test func `offsets, short fractions and lower case are read`() throws {
        let noon = try #require(WallClock.Instant("2026-11-30T12:00:00Z"))
        #expect(WallClock.Instant("2026-11-30T13:30:00+01:30") == noon)
        #expect(WallClock.Instant("2026-11-30t07:00:00-05:00") == noon)
        #expect(WallClock.Instant("2026-11-30 12:00:00.5z") == noon + .milliseconds(500))
        #expect(WallClock.Instant("2026-11-30T12:00:00.1234567Z") == noon + .microseconds(123_456))
    }

    @Test(arguments: [
        "", "2026-11-30", "2026-11-30T12:00:00", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-11-30T24:00:00Z", "2026-11-30T12:00:00.Z", "2026-11-30T12:00:00Zx", "2026-11-30T12:00:00+1:00",
    ])
    func `malformed moments are refused`(text: String) {
        #expect(WallClock.Instant(text) == nil)
    }

    @Test func `arithmetic is exact and stays in range`() {
        let start = WallClock.Instant(secondsSinceEpoch: 100)
        #expect((start + .milliseconds(1500)) - start == .milliseconds(1500))
        #expect((start - .seconds(200)).secondsSinceEpoch == -100)
        #expect(WallClock.Instant(microsecondsSinceEpoch: -1).secondsSinceEpoch == -1)
        #expect(start + .seconds(Int64.max / 2) == WallClock.Instant(microsecondsSinceEpoch: .max))
        let earlier = WallClock.Instant(secondsSinceEpoch: -100)
        #expect(earlier - .seconds(Int64.max / 2) == WallClock.Instant(microsecondsSinceEpoch: .min))
        let first = WallClock.Instant(microsecondsSinceEpoch: .min)
        let last = WallClock.Instant(microsecondsSinceEpoch: .max)
        #expect(last - first == .microseconds(Int64.max))
        #expect(first - last == .microseconds(Int64.min))
        #expect(WallClock.Instant(secondsSinceEpoch: .max) == last)
        #expect(WallClock.now() > start)
    }

    @Test func `milliseconds to wait are rounded up`() {
        #expect(Duration.microseconds(1).wholeMillisecondsRoundedUp == 1)
        #expect(Duration.milliseconds(2).wholeMillisecondsRoundedUp == 2)
        #expect(Duration.zero.wholeMillisecondsRoundedUp == 0)
        #expect(Duration.nanoseconds(-1).wholeMicroseconds == -1)
    }
}
