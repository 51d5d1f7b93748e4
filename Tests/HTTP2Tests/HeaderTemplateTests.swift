@testable import HTTP2
import Testing

@Suite struct HeaderTemplateTests {
    private func batch(
        _ topic: String = "com.example.app",
        own: String = "apns-id",
        path: String
    ) throws -> RequestBatch {
        var builder = RequestBatchBuilder(timeLimit: .seconds(1))
        try builder.addField("apns-topic", value: topic)
        try builder.addOwnField(own)
        try builder.add(path: builder.store(path), ownValues: builder.store("id of \(path)"), body: .none)
        return builder.finish()
    }

    @Test func `a template serves the batches that differ in paths and own values only`() throws {
        let first = try batch(path: "/3/device/1")
        #expect(first.hasFields(of: try batch(path: "/3/device/22")))
        #expect(!first.hasFields(of: try batch("com.example.app2", path: "/3/device/1")))
        #expect(!first.hasFields(of: try batch("com.example.apq", path: "/3/device/1")))
        #expect(!first.hasFields(of: try batch(own: "apns-expiration", path: "/3/device/1")))
    }

    @Test func `a template that was made for another batch writes what one of its own would`() throws {
        let fields = PoolFields(authority: "api.push.apple.com")
        var table = HeaderTable()
        let first = try batch(path: "/3/device/1")
        let second = try batch(path: "/3/device/22")
        _ = HeaderTemplate.firstBlock(of: first.entries[0], in: first, fields, &table)
        let template = HeaderTemplate(batch: first, poolFields: fields, table: table)
        let served = HeaderTemplate(template, for: second)
        let own = HeaderTemplate(batch: second, poolFields: fields, table: table)
        #expect(block(served, second.entries[0]) == block(own, second.entries[0]))
        #expect(served.listSize(of: second.entries[0]) == own.listSize(of: second.entries[0]))
    }

    private func block(_ template: HeaderTemplate, _ entry: RequestBatch.Entry) -> [UInt8] {
        let count = template.blockCount(of: entry)
        return unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, written in
            guard let start = buffer.baseAddress else { return }
            _ = unsafe template.writeBlock(of: entry, to: start)
            written = count
        }
    }
}
