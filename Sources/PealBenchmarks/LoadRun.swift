import Delivery
import HTTP2
import PushCore
import Synchronization

/// One run of `HTTP2Load`: batches of 5,000 messages, at most 15,000 messages in hand, as the campaign lane has it.
struct LoadRun {
    let notification: LoadNotification
    let pool: PoolConfiguration

    // As the rows of a batch hold them; h2load too goes over 10,000 paths.
    private let tokens = makeTokens(10_000)

    private static let batchSize = 5_000
    private static let messagesInHand = 15_000

    /// What came of it.
    struct Counts {
        var accepted = 0
        var settled = 0
    }

    /// Sends so many pushes to devices 1, 2, 3, … and returns when all are answered.
    func send(_ requests: Int) async throws -> Counts {
        let inbox = ChunkInbox()
        let client = try HTTP2Client { inbox.put($0) }
        let target = client.makePool(pool)
        try client.setField("authorization", value: Array(notification.authorization.utf8), of: target)
        var counts = Counts()
        var results = LoadResults()
        var submitted = 0
        var chunks: [CompletionChunk] = []
        for await _ in inbox.arrivals {
            while submitted < requests, submitted - counts.settled + Self.batchSize <= Self.messagesInHand {
                let size = min(Self.batchSize, requests - submitted)
                client.submit(try makeBatch(firstDevice: submitted + 1, size: size), tag: submitted, to: target)
                submitted += size
            }
            inbox.take(into: &chunks)
            for chunk in chunks { settle(chunk, &counts, &results) }
            if counts.settled == requests { break }
        }
        await client.stop(within: .seconds(1))
        return counts
    }

    // The same steps as `RequestBuilder` in Delivery, with tokens that are made up in place of the database's rows.
    private func makeBatch(firstDevice: Int, size: Int) throws(HTTP2Error) -> RequestBatch {
        var builder = RequestBatchBuilder(
            deadline: WallClock.now() + .seconds(3_600),
            timeLimit: .seconds(30),
            reserving: size,
            bytesEach: 120
        )
        for field in notification.headers { try builder.addField(field.name, value: field.value) }
        try builder.addOwnField("apns-id")
        let body = builder.makeBody(.bytes(builder.store(notification.body)))
        let prefix = Array("/3/device/".utf8)
        for device in firstDevice..<firstDevice + size {
            let path = builder.store { buffer in
                buffer.append(contentsOf: prefix)
                let start = device % 10_000 * 64
                buffer.append(contentsOf: tokens[start..<start + 64])
            }
            let message = MessageID.make(job: notification.job, device: DeviceID(Int64(device)))
            let id = builder.store { message.appendText(to: &$0) }
            try builder.add(path: path, ownValues: id, body: body)
        }
        return builder.finish()
    }

    // 64 hex digits each, which differ all over from one to the next.
    private static func makeTokens(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(64 * count)
        for number in 0..<count {
            var state = UInt64(truncatingIfNeeded: number + 1) &* 0x9E37_79B9_7F4A_7C15
            for _ in 0..<4 {
                state = (state ^ (state >> 29)) &* 0xBF58_476D_1CE4_E5B9
                for shift in stride(from: 60, through: 0, by: -4) {
                    let digit = UInt8((state >> UInt64(shift)) & 15)
                    bytes.append(digit < 10 ? 0x30 + digit : 0x57 + digit)
                }
            }
        }
        return bytes
    }

    private func settle(_ chunk: CompletionChunk, _ counts: inout Counts, _ results: inout LoadResults) {
        let bytes = chunk.bytes.span
        for completion in chunk.completions {
            counts.settled += 1
            guard completion.kind == .answered, completion.status == 200 else { continue }
            counts.accepted += 1
            let device = Int64(completion.tag + completion.index + 1)
            let expected = MessageID.make(job: notification.job, device: DeviceID(device))
            let id = completion.fieldRange(0).flatMap { expected.isSpelt(by: bytes.extracting($0)) ? nil : $0 }
            results.append(device: device, status: completion.status, id: id, in: bytes)
        }
    }
}

/// Outcomes as delivery gathers them for a flush, dropped by 5,000 in place of the COPY.
private struct LoadResults {
    private struct Entry {
        let device: Int64
        let status: Int16
        let idStart: UInt32
        let idCount: UInt16
    }

    private var entries: [Entry] = []
    private var bytes: [UInt8] = []

    mutating func append(device: Int64, status: Int, id: Range<Int>?, in answer: Span<UInt8>) {
        if entries.count == 5_000 {
            entries.removeAll(keepingCapacity: true)
            bytes.removeAll(keepingCapacity: true)
        }
        let start = bytes.count
        if let id {
            for position in id { bytes.append(answer[position]) }
        }
        entries.append(
            Entry(
                device: device,
                status: Int16(clamping: status),
                idStart: UInt32(start),
                idCount: UInt16(bytes.count - start)
            )
        )
    }
}

/// Where the client's thread leaves completions, with a wake-up when enough have come for it to be worth one.
private final class ChunkInbox: Sendable {
    private struct State {
        var chunks: [CompletionChunk] = []
        var count = 0
    }

    /// Begins with one element, so that there is something to begin with.
    let arrivals: AsyncStream<Void>
    private let arrival: AsyncStream<Void>.Continuation
    private let state = Mutex(State())

    init() {
        (arrivals, arrival) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        arrival.yield()
    }

    func put(_ chunk: CompletionChunk) {
        state.withLock { state in
            state.chunks.append(chunk)
            state.count += chunk.completions.count
        }
        arrival.yield()
    }

    func take(into chunks: inout [CompletionChunk]) {
        chunks.removeAll(keepingCapacity: true)
        state.withLock { state in
            swap(&state.chunks, &chunks)
            state.count = 0
        }
    }
}
