package import PushCore

/// The identifier of one message, sent as `apns-id`: derived, so that a repeated request repeats it.
package enum MessageID {
    /// The job's first eight bytes, then its last eight mixed with the device's number.
    package static func make(job: JobID, device: DeviceID) -> UUIDValue {
        UUIDValue(high: job.value.high, low: job.value.low ^ UInt64(bitPattern: device.value))
    }
}
