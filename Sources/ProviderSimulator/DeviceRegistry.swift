import Synchronization

/// The devices behind the providers, for tests that ask what a person got rather than what a provider took.
///
/// Without devices nothing changes. A message that a GOAWAY excludes never gets here. May be called from any thread.
package final class DeviceRegistry: Sendable {
    private struct Key: Hashable {
        let role: ProviderRole
        let token: String
    }

    private let devices = Mutex<[Key: DeviceState]>([:])
    private let count = Atomic<Int>(0)
    private let clock: SimulatorClock
    private let refusesUnknown: Bool

    init(clock: SimulatorClock, refusesUnknown: Bool) {
        self.clock = clock
        self.refusesUnknown = refusesUnknown
    }

    /// Adds a device, or changes one; what it got and what waits for it stays.
    package func set(_ device: SimulatedDevice) {
        let key = Self.key(device.token, device.role)
        devices.withLock { devices in
            if devices[key] == nil { count.add(1, ordering: .relaxed) }
            devices[key, default: DeviceState(device)].device = device
            if device.isOnline { devices[key]?.set(isOnline: true, now: clock.unixMilliseconds) }
        }
    }

    /// A device comes online, and gets what its provider has kept, or goes offline.
    package func set(_ token: String, role: ProviderRole, isOnline: Bool) {
        change(token, role) { $0.set(isOnline: isOnline, now: clock.unixMilliseconds) }
    }

    /// What reached a device, in order; at most the newest 10,000.
    package func delivered(to token: String, role: ProviderRole) -> [DeliveredMessage] {
        stateNow(token, role)?.delivered ?? []
    }

    /// What a device shows: of the messages with one collapse id the newest.
    package func shown(on token: String, role: ProviderRole) -> [DeliveredMessage] {
        stateNow(token, role)?.shown ?? []
    }

    /// The ledger's numbers of the messages that wait for a device.
    package func stored(for token: String, role: ProviderRole) -> [Int] {
        stateNow(token, role)?.storedNumbers ?? []
    }

    /// How many accepted messages never reached a device, by cause.
    package func losses(of token: String, role: ProviderRole) -> [DeliveryLoss: Int] {
        stateNow(token, role)?.losses ?? [:]
    }

    // MARK: Asked by the loop

    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 && !refusesUnknown }

    /// What the provider says of the token; nil when it takes the message.
    ///
    /// - Parameter app: the topic without suffix (APNs), the project (FCM).
    func refusal(of token: String, role: ProviderRole, app: String) -> Behaviour? {
        guard let device = state(token, role)?.device else {
            let isOfOther = role.isAPNs && ProviderRole.allCases.contains { $0.isAPNs && state(token, $0) != nil }
            return refusesUnknown || isOfOther ? Self.unknown(role) : nil
        }
        if device.answer != .accept { return device.answer }
        if role.isAPNs, let topic = device.topic, topic != app { return .reject(reason: "DeviceTokenNotForTopic") }
        if role == .fcm, let project = device.projectID, project != app { return .fault(.senderMismatch) }
        return nil
    }

    func take(_ record: RequestRecord) {
        change(record.token, record.role) { $0.take(record, now: clock.unixMilliseconds) }
    }

    private static func unknown(_ role: ProviderRole) -> Behaviour {
        role.isAPNs ? .reject(reason: "BadDeviceToken") : .fault(.invalidToken)
    }

    /// What waited for no more than time has reached the device.
    private func stateNow(_ token: String, _ role: ProviderRole) -> DeviceState? {
        change(token, role) { $0.handOver(now: clock.unixMilliseconds) }
        return state(token, role)
    }

    private func state(_ token: String, _ role: ProviderRole) -> DeviceState? {
        devices.withLock { $0[Self.key(token, role)] }
    }

    private func change(_ token: String, _ role: ProviderRole, _ body: (inout DeviceState) -> Void) {
        devices.withLock { devices in
            guard var state = devices.removeValue(forKey: Self.key(token, role)) else { return }
            body(&state)
            devices[Self.key(token, role)] = state
        }
    }

    private static func key(_ token: String, _ role: ProviderRole) -> Key {
        Key(role: role, token: role.isAPNs ? token.lowercased() : token)
    }
}
