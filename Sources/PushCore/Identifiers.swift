// Each kind of identifier is a type of its own, so that mixing two of them does not compile.

/// Names a job: one send, and its row in `peal.job`.
package struct JobID: Hashable, Sendable, CustomStringConvertible {
    package let value: UUIDValue
    package init(_ value: UUIDValue) { self.value = value }
    package var description: String { value.description }
}

/// Names a batch: a row of `peal.batch` within its slot.
package struct BatchID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let value: Int64
    package init(_ value: Int64) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: BatchID, right: BatchID) -> Bool { left.value < right.value }
}

/// Names a device: one installation, numbered for life in `peal.device`.
package struct DeviceID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let value: Int64
    package init(_ value: Int64) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: DeviceID, right: DeviceID) -> Bool { left.value < right.value }
}

/// Names an app: a tenant, and its row in `peal.app`.
package struct AppID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let value: Int32
    package init(_ value: Int32) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: AppID, right: AppID) -> Bool { left.value < right.value }
}

/// Names a provider credential of an app: a row of `peal.credential`.
package struct CredentialID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let value: Int64
    package init(_ value: Int64) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: CredentialID, right: CredentialID) -> Bool { left.value < right.value }
}

/// The fencing value of one lease: random, new with each claim, checked by every write under that lease.
package struct LeaseToken: Hashable, Sendable, CustomStringConvertible {
    package let value: UUIDValue
    package init(_ value: UUIDValue) { self.value = value }
    package var description: String { value.description }
}
