import PushCore
import Testing

@Suite struct UUIDValueTests {
    @Test func `text and bytes round trip in canonical lower case`() throws {
        let text = "01234567-89ab-cdef-fedc-ba9876543210"
        let value = try #require(UUIDValue(text))
        #expect(value.high == 0x0123_4567_89ab_cdef)
        #expect(value.low == 0xfedc_ba98_7654_3210)
        #expect(value.description == text)
        #expect(UUIDValue(text.uppercased()) == value)
        #expect(UUIDValue(bytes: value.bytes) == value)
    }

    @Test(arguments: [
        "", "01234567", "0123456789abcdeffedcba9876543210", "01234567-89ab-cdef-fedc-ba987654321",
        "01234567-89ab-cdef-fedc-ba98765432100", "01234567-89ab-cdef-fedc_ba9876543210",
        "0123456g-89ab-cdef-fedc-ba9876543210", "{1234567-89ab-cdef-fedc-ba987654321}",
    ])
    func `malformed text is refused`(text: String) {
        #expect(UUIDValue(text) == nil)
    }

    @Test func `a wrong number of bytes is refused`() {
        #expect(UUIDValue(bytes: [UInt8](repeating: 0, count: 15)) == nil)
        #expect(UUIDValue(bytes: [UInt8](repeating: 0, count: 17)) == nil)
    }

    @Test func `random UUIDs carry version 4 and its variant`() {
        for _ in 0..<100 {
            let value = UUIDValue.random()
            #expect(value.high >> 12 & 15 == 4)
            #expect(value.low >> 62 == 0b10)
        }
    }

    @Test func `version 7 sorts by time down to the microsecond`() {
        let start = WallClock.Instant(microsecondsSinceEpoch: 1_796_040_000_000_998)
        let values = (0..<5).map { UUIDValue.uuidV7(now: start + .microseconds($0)) }
        #expect(values == values.sorted())
        #expect(values.allSatisfy { $0.high >> 12 & 15 == 7 && $0.low >> 62 == 0b10 })
        #expect(values[0].high >> 16 == 1_796_040_000_000)
    }
}
