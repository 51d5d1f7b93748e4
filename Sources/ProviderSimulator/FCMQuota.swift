/// FCM's own limits, counted. What is over them is answered 429 QUOTA_EXCEEDED, of the project or of the device.
///
/// The buckets run on the simulator's clock, so that a test can let a minute pass. Defaults: Firebase's documentation.
package struct FCMQuota: Sendable, Hashable {
    /// Requests of one project a minute, refused ones included.
    package var projectPerMinute: Int
    /// Messages to one device a minute, and an hour.
    package var devicePerMinute: Int
    package var devicePerHour: Int

    package init(projectPerMinute: Int = 600_000, devicePerMinute: Int = 240, devicePerHour: Int = 5_000) {
        precondition(min(projectPerMinute, devicePerMinute, devicePerHour) > 0, "a quota lets something through")
        self.projectPerMinute = projectPerMinute
        self.devicePerMinute = devicePerMinute
        self.devicePerHour = devicePerHour
    }
}

/// What was used of a quota.
struct FCMQuotaUse {
    private struct Device {
        var minute: TokenBucket
        var hour: TokenBucket
    }

    private static let maximumDevices = 100_000

    private let quota: FCMQuota
    private var projects: [String: TokenBucket] = [:]
    private var devices: [String: Device] = [:]

    init(_ quota: FCMQuota) { self.quota = quota }

    /// Counts a request of a project; false when it is over the quota.
    mutating func takeRequest(of project: String, now: Int64) -> Bool {
        // A test double that is asked for ever new projects forgets the old ones.
        if projects.count >= 1_000, projects[project] == nil { projects.removeAll() }
        let full = TokenBucket(capacity: quota.projectPerMinute, intervalMilliseconds: 60_000, now: now)
        return projects[project, default: full].take(now: now)
    }

    /// Counts a message to a device; false when it is over one of the device's quotas, and then counts for neither.
    mutating func takeMessage(to token: String, now: Int64) -> Bool {
        if devices.count >= Self.maximumDevices, devices[token] == nil { forgetIdle(now) }
        var device =
            devices[token]
            ?? Device(
                minute: TokenBucket(capacity: quota.devicePerMinute, intervalMilliseconds: 60_000, now: now),
                hour: TokenBucket(capacity: quota.devicePerHour, intervalMilliseconds: 3_600_000, now: now)
            )
        defer { devices[token] = device }
        guard device.minute.hasPermit(now: now), device.hour.hasPermit(now: now) else { return false }
        return device.minute.take(now: now) && device.hour.take(now: now)
    }

    private mutating func forgetIdle(_ now: Int64) {
        devices = devices.filter { entry in
            var hour = entry.value.hour
            return !hour.isFull(now: now)
        }
        if devices.count >= Self.maximumDevices { devices.removeAll() }
    }
}
