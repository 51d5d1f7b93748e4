/// A device that the simulator knows by name. Tokens without one are judged by their words alone.
package struct SimulatedDevice: Sendable, Hashable {
    package let token: String
    package let role: ProviderRole
    /// APNs: the app that the token belongs to, without suffix; another topic is `DeviceTokenNotForTopic`. Nil: any.
    package var topic: String?
    /// FCM: the project that the token belongs to; another one is SENDER_ID_MISMATCH. Nil: any.
    package var projectID: String?
    /// What its provider says of it: `.accept` for a live one, else a rejection.
    package var answer: Behaviour
    /// Messages to a device that is offline are kept as its provider keeps them.
    package var isOnline: Bool

    package init(
        _ token: String,
        role: ProviderRole,
        topic: String? = nil,
        projectID: String? = nil,
        answer: Behaviour = .accept,
        isOnline: Bool = true
    ) {
        self.token = token
        self.role = role
        self.topic = topic
        self.projectID = projectID
        self.answer = answer
        self.isOnline = isOnline
    }
}

/// A message that reached a device.
package struct DeliveredMessage: Sendable, Hashable {
    /// The request's number in the ledger.
    package let number: Int
    package let topic: String?
    /// APNs: collapse id. FCM: collapse key.
    package let collapseID: String?
    /// UNIX milliseconds of the simulator's clock when the device got it.
    package let deliveredAt: Int64
}

/// Why an accepted message never reached its device.
package enum DeliveryLoss: Sendable, Hashable {
    /// Expiration or ttl of zero, and the device was offline.
    case notStored
    /// A newer one took its place.
    case replaced
    /// Its time was over when the device came back.
    case expired
    /// FCM: more than 100 waited, so all were thrown away.
    case overflowed
}

/// A device with what waits for it and what it got.
struct DeviceState {
    private struct Stored {
        let record: RequestRecord
        let expiresAt: Int64
        /// What it shares its place with; nil for FCM messages that are not collapsible.
        let place: String?
    }

    /// FCM keeps at most that many collapse keys per device; which ones is arbitrary.
    private static let maximumKeys = 4
    /// FCM throws all away when more than that many wait that are not collapsible.
    private static let maximumPending = 100
    /// A device of a test remembers that many messages; older ones are forgotten.
    private static let maximumDelivered = 10_000
    private static let thirtyDays: Int64 = 30 * 86_400_000
    private static let fourWeeks: Int64 = 28 * 86_400_000
    /// FCM gives a device at most that many collapsible messages of an app at once, then one each three minutes.
    private static let collapsibleBurst = 20
    private static let collapsibleInterval: Int64 = 180_000

    var device: SimulatedDevice
    private var stored: [Stored] = []
    /// Made with the first collapsible message of FCM.
    private var collapsible: TokenBucket?
    private(set) var delivered: [DeliveredMessage] = []
    private(set) var losses: [DeliveryLoss: Int] = [:]

    init(_ device: SimulatedDevice) { self.device = device }

    var storedNumbers: [Int] { stored.map(\.record.number) }

    /// What the device shows: of the messages with one collapse id the newest.
    var shown: [DeliveredMessage] {
        var newest: [DeliveredMessage] = []
        for message in delivered {
            if let id = message.collapseID { newest.removeAll { $0.collapseID == id && $0.topic == message.topic } }
            newest.append(message)
        }
        return newest
    }

    /// Takes an accepted message: to the device, to what waits for it, or nowhere.
    mutating func take(_ record: RequestRecord, now: Int64) {
        let expiresAt = device.role.isAPNs ? apnsExpiry(record, now) : fcmExpiry(record, now)
        let place = place(of: record)
        handOver(now: now)
        // What is sent for now or never is not delayed.
        if device.isOnline, expiresAt == 0 || mayPass(place, now: now) { return deliver(record, now: now) }
        guard expiresAt > now else { return lose(expiresAt == 0 ? .notStored : .expired) }
        if let place {
            lose(.replaced, where: { $0.place == place })
        } else if stored.count(where: { $0.place == nil }) == Self.maximumPending {
            lose(.overflowed, where: { $0.place == nil })
            return lose(.overflowed)
        }
        stored.append(Stored(record: record, expiresAt: expiresAt, place: place))
        if !device.role.isAPNs, stored.count(where: { $0.place != nil }) > Self.maximumKeys,
            let oldest = stored.firstIndex(where: { $0.place != nil })
        {
            stored.remove(at: oldest)
            lose(.replaced)
        }
    }

    /// The device is back, or gone.
    mutating func set(isOnline: Bool, now: Int64) {
        device.isOnline = isOnline
        handOver(now: now)
    }

    /// Gives the device what waits for it, if it is there, and FCM's delay is over.
    mutating func handOver(now: Int64) {
        guard device.isOnline, !stored.isEmpty else { return }
        let waiting = stored
        stored = []
        for message in waiting {
            if message.expiresAt <= now {
                lose(.expired)
            } else if mayPass(message.place, now: now) {
                deliver(message.record, now: now)
            } else {
                stored.append(message)
            }
        }
    }

    // MARK: Parts

    /// Takes the permit of a collapsible message of FCM; everything else needs none.
    private mutating func mayPass(_ place: String?, now: Int64) -> Bool {
        guard !device.role.isAPNs, place != nil else { return true }
        var bucket =
            collapsible
            ?? TokenBucket(
                capacity: Self.collapsibleBurst,
                refill: 1,
                intervalMilliseconds: Self.collapsibleInterval,
                now: now
            )
        defer { collapsible = bucket }
        return bucket.take(now: now)
    }

    /// APNs keeps one message per app. FCM keeps one per collapse key; notifications ignore the key and share the app's.
    private func place(of record: RequestRecord) -> String? {
        if device.role.isAPNs { return record.topic ?? "" }
        return record.isNotification ? "" : record.collapseID
    }

    /// Zero: not stored at all.
    private func apnsExpiry(_ record: RequestRecord, _ now: Int64) -> Int64 {
        guard let text = record.expiration, let seconds = Int64(text) else { return now + Self.thirtyDays }
        return seconds == 0 ? 0 : min(seconds.multipliedReportingOverflow(by: 1000).partialValue, now + Self.thirtyDays)
    }

    private func fcmExpiry(_ record: RequestRecord, _ now: Int64) -> Int64 {
        guard let text = record.expiration, text.hasSuffix("s"), let seconds = Double(text.dropLast()) else {
            return now + Self.fourWeeks
        }
        return seconds == 0 ? 0 : now + Int64(min(seconds * 1000, Double(Self.fourWeeks)))
    }

    private mutating func deliver(_ record: RequestRecord, now: Int64) {
        if delivered.count == Self.maximumDelivered { delivered.removeFirst(Self.maximumDelivered / 2) }
        delivered.append(
            DeliveredMessage(
                number: record.number,
                topic: record.topic,
                collapseID: record.collapseID,
                deliveredAt: now
            )
        )
    }

    private mutating func lose(_ loss: DeliveryLoss, where isLost: (Stored) -> Bool) {
        let count = stored.count(where: isLost)
        if count > 0 { losses[loss, default: 0] += count }
        stored.removeAll(where: isLost)
    }

    private mutating func lose(_ loss: DeliveryLoss) { losses[loss, default: 0] += 1 }
}
