/// One row of an import file, checked, in the form that is stored.
package struct DeviceRow: Sendable, Equatable {
    package var line = 0
    package var channel = ""
    package var environment: String?
    package var token: [UInt8] = []
    package var voipToken: [UInt8]?
    package var installationID: [UInt8]?
    package var externalID: [UInt8]?
    /// JSON text of an object, or nil when the file says nothing about tags or clears them.
    package var tags: [UInt8]?
    package var locale: [UInt8]?
    package var timezone: [UInt8]?
    package var appVersion: [UInt8]?
    package var osVersion: [UInt8]?
    package var model: [UInt8]?
}

/// A row that was not imported.
package struct RefusedRow: Error, Sendable, Equatable {
    /// The line that the row begins on; the header is line 1.
    package let line: Int
    /// What is wrong, beginning with the column.
    package let reason: String
}
