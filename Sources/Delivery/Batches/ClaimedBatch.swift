import Postgres
import PushCore

/// A row of `peal.batch` as it was claimed.
struct ClaimedBatch: Sendable {
    let id: BatchID
    let tag: Int64
    let app: AppID
    let job: JobID
    /// As it stands in the row: a newer binary may know more routes.
    let routeNumber: Int16
    let pageNumber: Int32
    let pageOffset: Int32
    let size: Int
    /// The send attempt that this batch makes, from 1.
    let attempt: Int
    /// By the server's clock.
    let expiresAt: WallClock.Instant
    let leaseNumber: Int32
    let settledLeaseNumber: Int32
    let lease: LeaseToken
    let done: Bitmap
    /// Recipients below it may be submitted at once: the claim permits the first window of a job that may send again.
    let sendingTo: Int
    /// Recipients below it whose bit is unset may have been sent by a worker before us.
    let sentTo: Int
    /// When the audience was frozen, which tells in which partition its page is. Nil where the job is gone.
    let audienceAt: WallClock.Instant?

    var route: Route? { Route(rawValue: routeNumber) }

    /// Claimed again and again without an outcome: something in it stops us.
    var isPoisoned: Bool { leaseNumber - settledLeaseNumber > 3 }

    /// Whether a worker before us may have sent something of it.
    var isReclaimed: Bool { leaseNumber > 1 }

    init(_ rows: PostgresRows, row: Int) throws(PostgresError) {
        id = BatchID(try rows.int64(row, 0))
        tag = try rows.int64(row, 1)
        app = AppID(try rows.int32(row, 2))
        job = JobID(try rows.uuid(row, 3))
        routeNumber = try rows.int16(row, 4)
        pageNumber = try rows.int32(row, 5)
        pageOffset = try rows.int32(row, 6)
        size = Int(try rows.int32(row, 7))
        attempt = Int(try rows.int16(row, 8))
        expiresAt = try rows.timestamp(row, 9)
        leaseNumber = try rows.int32(row, 10)
        settledLeaseNumber = try rows.int32(row, 11)
        lease = LeaseToken(try rows.uuid(row, 12))
        done = Bitmap(bytes: try rows.bytes(row, 13), count: size)
        sendingTo = Int(try rows.int32(row, 14))
        sentTo = Int(try rows.int32(row, 15))
        audienceAt = try rows.timestampOrNil(row, 16)
    }

    /// The server's time when it was claimed.
    static func serverTime(_ rows: PostgresRows) throws(PostgresError) -> WallClock.Instant {
        try rows.timestamp(0, 17)
    }
}
