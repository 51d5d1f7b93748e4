package import Postgres
package import PushCore
import SQLText

/// Which devices of an app are meant.
package struct DeviceSelection: Sendable {
    package var deviceID: Int64?
    package var externalID: String?
    package var installationID: String?
    package var token: String?
    package var channel: String?
    package var isDisabled: Bool?

    package init() {}
}

/// Lists and removes devices.
package struct Devices: Sendable {
    /// What `page` returns, by column.
    package static let columns = columnKinds.map(\.0)
    private static let columnKinds: [(String, CellKind)] = [
        ("id", .number), ("channel", .text), ("environment", .text), ("token", .text), ("voip_token", .text),
        ("installation_id", .text), ("external_id", .text), ("tags", .json), ("locale", .text), ("timezone", .text),
        ("app_version", .text), ("os_version", .text), ("model", .text), ("registered_at", .time),
        ("disabled_at", .time), ("disabled_reason", .text), ("created_at", .time),
    ]

    private let connection: PostgresConnection

    package init(_ connection: PostgresConnection) {
        self.connection = connection
    }

    /// Devices with ids above `after`, in the order of ids, at most `limit`.
    package func page(_ app: AppID, _ selection: DeviceSelection, after: Int64 = 0, limit: Int) async throws -> [[Cell]]
    {
        let rows = try await connection.query(
            SQLText.adminListDevices,
            [
                .app(app), .int64(after), .int32(Int32(clamping: limit)), .int64(selection.deviceID),
                .text(selection.externalID), .text(selection.installationID), .text(selection.token),
                .text(selection.channel), .bool(selection.isDisabled),
            ]
        )
        return try rows.cells(Self.columnKinds)
    }

    /// A row of `page` with its columns' names, tokens cut to their first 8 characters unless they are wanted whole.
    package static func members(_ row: [Cell], wholeTokens: Bool) -> [(String, Cell)] {
        zip(columns, row).map { column, cell in
            guard !wholeTokens, column == "token" || column == "voip_token", case .text(let token) = cell else {
                return (column, cell)
            }
            return (column, .text(token.prefix(8) + "…"))
        }
    }

    /// Removes the devices that exactly one of the selection's names leads to, and says how many there were.
    package func remove(slug: String, _ selection: DeviceSelection) async throws -> Int {
        var members: [(String, Cell)] = []
        if let id = selection.deviceID { members.append(("device_id", .text(String(id)))) }
        if let id = selection.externalID { members.append(("external_id", .text(id))) }
        if let id = selection.installationID { members.append(("installation_id", .text(id))) }
        if let token = selection.token { members.append(("token", .text(token))) }
        if let channel = selection.channel { members.append(("channel", .text(channel))) }
        let rows = try await connection.query(
            SQLText.adminUnregisterDevice,
            [.text(slug), .jsonb(JSONLine.object(members))]
        )
        return Int(try rows.int32(0, 0))
    }
}
