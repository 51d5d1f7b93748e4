import TestSupport
import Testing

@testable import HTTP2

/// What we encode is decoded by libnghttp2, which shares no code with the encoder; and where RFC 7541 has an example of
/// it, the bytes are those of the example.
@Suite struct HeaderCodecTests {
    private struct Field: Equatable {
        let name: String
        let value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    private func decode(_ block: [UInt8], with decoder: HeaderDecoder) throws -> [Field] {
        var fields: [Field] = []
        let bytes = PinnedBytes(block)
        try unsafe decoder.decode(UnsafeBufferPointer(start: bytes.base, count: bytes.count)) { name, value in
            unsafe fields.append(Field(String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self)))
        }
        withExtendedLifetime(bytes) {}
        return fields
    }

    /// The block of a request as the template writes it.
    private func block(_ template: HeaderTemplate, _ entry: RequestBatch.Entry) -> [UInt8] {
        let output = OutputBuffer()
        let count = template.blockCount(of: entry)
        let start = unsafe output.extend(by: count)
        let end = unsafe template.writeBlock(of: entry, to: start)
        let written = unsafe end - start
        #expect(written == count)
        var bytes: [UInt8] = []
        output.write { span in
            bytes = span.indices.map { span[$0] }
            return span.count
        }
        return bytes
    }

    private func hex(_ text: String) -> [UInt8] {
        let digits = text.filter { $0 != " " }
        return stride(from: 0, to: digits.count, by: 2).map { offset in
            let start = digits.index(digits.startIndex, offsetBy: offset)
            return UInt8(digits[start...].prefix(2), radix: 16) ?? 0
        }
    }

    // MARK: The examples of RFC 7541, appendix C

    @Test(arguments: [(10, [0x0A]), (31, [0x1F, 0x00]), (1337, [0x1F, 0x9A, 0x0A])] as [(Int, [UInt8])])
    func `integers are those of C 1`(value: Int, bytes: [UInt8]) {
        #expect(HeaderBlockWriter.integer(value, bits: 5, pattern: 0) == bytes)
    }

    @Test func `an integer of eight bits is that of C 1 3`() {
        #expect(HeaderBlockWriter.integer(42, bits: 8, pattern: 0) == [0x2A])
    }

    @Test func `a path is the literal of C 2 2`() {
        var writer = HeaderBlockWriter()
        writer.appendPath(Array("/sample/path".utf8))
        #expect(writer.bytes == hex("040c 2f73 616d 706c 652f 7061 7468"))
    }

    @Test(arguments: [
        ("www.example.com", "f1e3 c2e5 f23a 6ba0 ab90 f4ff"), ("no-cache", "a8eb 1064 9cbf"),
        ("custom-key", "25a8 49e9 5ba9 7d7f"), ("custom-value", "25a8 49e9 5bb8 e8b4 bf"), ("302", "6402"),
        ("private", "aec3 771a 4b"),
        ("Mon, 21 Oct 2013 20:13:21 GMT", "d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff"),
        ("https://www.example.com", "9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3"), ("307", "640e ff"),
        ("gzip", "9bd9 ab"),
    ])
    func `strings are coded as in C 4 and C 6`(text: String, code: String) {
        #expect(HuffmanCode.encode(Array(text.utf8)) == hex(code))
    }

    // The examples differ from our requests in scheme and path only, which come before what is compared.
    @Test func `three requests on one connection are those of C 4`() {
        var table = HeaderTable()
        let steps: [(field: (String, String)?, code: String, size: Int)] = [
            (nil, "418c f1e3 c2e5 f23a 6ba0 ab90 f4ff", 57),
            (("cache-control", "no-cache"), "be58 86a8 eb10 649c bf", 110),
            (("custom-key", "custom-value"), "bf40 8825 a849 e95b a97d 7f89 25a8 49e9 5bb8 e8b4 bf", 164),
        ]
        for step in steps {
            var writer = HeaderBlockWriter()
            writer.append(Array(":authority".utf8), Array("www.example.com".utf8), entering: &table)
            if let (name, value) = step.field { writer.append(Array(name.utf8), Array(value.utf8), entering: &table) }
            #expect(writer.bytes == hex(step.code))
            #expect(table.size == step.size)
        }
    }

    @Test func `every byte is coded and decoded`() throws {
        let decoder = try #require(HeaderDecoder())
        for byte in UInt8.min...UInt8.max {
            var writer = HeaderBlockWriter()
            // Behind letters that the code shortens, so that the whole is coded.
            let value = [UInt8](repeating: 0x61, count: 60) + [byte]
            writer.append(neverIndexed: Array("x".utf8), value, lookingInto: HeaderTable())
            var seen: [UInt8] = []
            let bytes = PinnedBytes(writer.bytes)
            try unsafe decoder.decode(UnsafeBufferPointer(start: bytes.base, count: bytes.count)) { _, value in
                unsafe seen = Array(value)
            }
            #expect(seen == value && writer.bytes.count < 60)
            withExtendedLifetime(bytes) {}
        }
    }

    // MARK: Requests

    private func makeBatch(_ generator: inout SeededGenerator, count: Int) throws -> RequestBatch {
        func word(_ length: ClosedRange<Int>) -> String {
            let letters = Array("abcdefghijklmnopqrstuvwxyz0123456789-._~%{}\"\\ABC")
            return String(
                (0..<Int.random(in: length, using: &generator)).map { _ in
                    letters.randomElement(using: &generator) ?? "x"
                }
            )
        }
        var builder = RequestBatchBuilder(
            method: ["POST", "GET", "PUT"].randomElement(using: &generator) ?? "POST",
            timeLimit: .seconds(1)
        )
        for number in 0..<Int.random(in: 0...6, using: &generator) {
            let name =
                ["apns-topic", "apns-push-type", "content-type", "apns-expiration", "user-agent"]
                .randomElement(using: &generator) ?? "x-\(number)"
            let value = Bool.random(using: &generator) ? "fixed" : word(0...200)
            try builder.addField(name, value: value, isIndexed: Bool.random(using: &generator))
        }
        let ownCount = Int.random(in: 0...2, using: &generator)
        for position in 0..<ownCount { try builder.addOwnField(["apns-id", "apns-collapse-id"][position]) }
        for _ in 0..<count {
            let path = builder.store("/3/device/" + word(0...300))
            let first = ownCount > 0 && Bool.random(using: &generator) ? builder.store(word(1...200)) : .none
            let second = ownCount > 1 && Bool.random(using: &generator) ? builder.store(word(1...64)) : .none
            try builder.add(path: path, ownValues: first, second, body: .none)
        }
        return builder.finish()
    }

    private func expected(_ batch: RequestBatch, _ index: Int, _ fields: PoolFields) -> [Field] {
        func text(_ range: ByteRange) -> String { String(decoding: batch.bytes.bytes(of: range), as: UTF8.self) }
        let entry = batch.entries[index]
        var list = [
            Field(":method", text(batch.method)), Field(":scheme", "https"), Field(":authority", "api.example.com"),
            Field(":path", text(entry.path)),
        ]
        list += fields.fields.map {
            Field(String(decoding: $0.name, as: UTF8.self), String(decoding: $0.value, as: UTF8.self))
        }
        list += batch.sharedFields.map { Field(text($0.name), text($0.value)) }
        for (position, field) in batch.ownFields.enumerated() where !entry.ownValue(position).isEmpty {
            list.append(Field(text(field.name), text(entry.ownValue(position))))
        }
        return list
    }

    private func poolFields(_ bearer: String, isIndexed: Bool) -> PoolFields {
        let field = PoolFields.Field(name: Array("authorization".utf8), value: Array(bearer.utf8), isIndexed: isIndexed)
        return PoolFields(authority: "api.example.com").with(field)
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func `what is sent is what the peer reads, through tables of all sizes`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let decoder = try #require(HeaderDecoder())
        var table = HeaderTable()
        var fields = poolFields("bearer abc", isIndexed: false)
        for _ in 0..<40 {
            if Int.random(in: 0..<4, using: &generator) == 0 {
                let bearer = "bearer " + String(repeating: "xY9", count: Int.random(in: 1...900, using: &generator))
                fields = poolFields(bearer, isIndexed: Bool.random(using: &generator))
            }
            // Several changes may come between two requests; the inflater keeps its own limit of 4096.
            for _ in 0..<Int.random(in: 0...2, using: &generator) {
                table.peerAllows([0, 50, 100, 300, 1000, 4096, 65_536].randomElement(using: &generator) ?? 0)
            }
            let batch = try makeBatch(&generator, count: 6)
            let first = HeaderTemplate.firstBlock(of: batch.entries[0], in: batch, fields, &table)
            #expect(try decode(first, with: decoder) == expected(batch, 0, fields), "seed \(seed)")
            #expect(table.size <= table.limit)
            let template = HeaderTemplate(batch: batch, poolFields: fields, table: table)
            for index in 1..<6 {
                let list = try decode(block(template, batch.entries[index]), with: decoder)
                #expect(list == expected(batch, index, fields), "seed \(seed)")
                let size = list.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 32 }
                #expect(template.listSize(of: batch.entries[index]) == size)
                #expect(HeaderTemplate.listSize(of: batch.entries[index], in: batch, fields) == size)
            }
        }
    }

    @Test func `a secret is never indexed and coded once, a bearer that may be kept costs a byte`() throws {
        let bearer = "bearer " + String(repeating: "aB3x", count: 45)
        var builder = RequestBatchBuilder(timeLimit: .seconds(1))
        try builder.addField("apns-topic", value: "com.example.app")
        try builder.addOwnField("apns-id")
        for number in 0..<2 {
            try builder.add(
                path: builder.store("/3/device/\(number)"),
                ownValues: builder.store("id-\(number)"),
                body: .none
            )
        }
        let batch = builder.finish()
        for isIndexed in [false, true] {
            var table = HeaderTable()
            let fields = poolFields(bearer, isIndexed: isIndexed)
            let first = HeaderTemplate.firstBlock(of: batch.entries[0], in: batch, fields, &table)
            let template = HeaderTemplate(batch: batch, poolFields: fields, table: table)
            let second = block(template, batch.entries[1])
            let secret =
                [0x1F, 0x08]
                + HeaderBlockWriter.integer(HuffmanCode.encode(Array(bearer.utf8)).count, bits: 7, pattern: 0x80)
            #expect(first.containsRun(secret) != isIndexed && second.containsRun(secret) != isIndexed)
            #expect(
                second.count == (isIndexed ? 25 : 25 + secret.count + HuffmanCode.encode(Array(bearer.utf8)).count - 1)
            )
        }
    }

    @Test(arguments: [[0], [100], [4096, 0, 4096], [300, 5000], [0, 200]])
    func `the peer's table sizes are obeyed and announced, the least of them first`(sizes: [Int]) throws {
        var table = HeaderTable()
        let fields = poolFields("bearer abc", isIndexed: false)
        let batch = try SessionRig.makeBatch(1)
        _ = HeaderTemplate.firstBlock(of: batch.entries[0], in: batch, fields, &table)
        let version = table.version
        for size in sizes { table.peerAllows(size) }
        let block = HeaderTemplate.firstBlock(of: batch.entries[0], in: batch, fields, &table)
        let least = min(sizes.min() ?? 0, 4096)
        let last = min(sizes.last ?? 0, 4096)
        var updates = HeaderBlockWriter.integer(least, bits: 5, pattern: 0x20)
        if last != least { updates += HeaderBlockWriter.integer(last, bits: 5, pattern: 0x20) }
        #expect(block.starts(with: updates))
        #expect(table.limit == last && table.version > version)
    }

    // MARK: Answers

    @Test(arguments: [[0xFF], [0x40, 0x05], [0x00, 0x85, 1], [0x88, 0x00], [0x88, 0x00, 0x01]] as [[UInt8]])
    func `a broken block is a fault and not a crash`(block: [UInt8]) throws {
        let decoder = try #require(HeaderDecoder())
        #expect(throws: ProtocolFault.self) { try decode(block, with: decoder) }
    }

    @Test func `a block in plain is read as nghttp2 reads it`() throws {
        let fields = [(":status", "200"), ("apns-id", "123e4567-e89b-12d3-a456-426614174000"), ("x", ""), ("y", "z")]
        let plain = Wire.block(fields)
        // With a size update in front it is no longer plain.
        let other = [0x20] + plain
        let decoder = try #require(HeaderDecoder())
        let read = try decode(plain, with: decoder)
        let readByNghttp2 = try decode(other, with: decoder)
        #expect(read == readByNghttp2)
        #expect(read == fields.map { Field($0.0, $0.1) })
        for status in ["200", "204", "206", "304", "400", "404", "500"].enumerated() {
            #expect(try decode([0x88 + UInt8(status.offset)], with: decoder) == [Field(":status", status.element)])
        }
    }
}

extension [UInt8] {
    fileprivate func containsRun(_ run: [UInt8]) -> Bool {
        guard count >= run.count else { return false }
        return (0...count - run.count).contains { Array(self[$0..<$0 + run.count]) == run }
    }
}
