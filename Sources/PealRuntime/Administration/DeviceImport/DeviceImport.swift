package import Postgres
package import PushCore
import SQLText

/// Imports devices from a CSV file by the rules of `peal.register_device`, a chunk of rows a transaction.
///
/// Importing a file again is safe: a row finds its device by its token, else by its installation, and refreshes it.
package struct DeviceImport: Sendable {
    /// What an import did so far.
    package struct Report: Sendable, Equatable {
        /// Data rows read. Always added + updated + merged + refused.
        package fileprivate(set) var read = 0
        package fileprivate(set) var added = 0
        package fileprivate(set) var updated = 0
        /// Rows that a later row of the same file replaced.
        package fileprivate(set) var merged = 0
        package fileprivate(set) var refused = 0
        /// Rows up to this line are in the database.
        package fileprivate(set) var lastLine = 1
        /// How much of the file was read.
        package fileprivate(set) var bytesRead = 0
    }

    /// An import that ended early, with what it did until then.
    package struct Failure: Error {
        package let report: Report
        package let underlying: any Error
    }

    private static let attempts = 5

    private let connection: PostgresConnection
    private let app: AppID

    /// An import into an app. The connection is busy until the end; it may lead through a pooler.
    package init(app: AppID, connection: PostgresConnection) {
        self.app = app
        self.connection = connection
    }

    /// Imports a file, or standard input for `-`, from a line on. `onChunk` is told the figures after each transaction.
    ///
    /// Throws `Failure` when it ends early; what the report counts until then is in the database.
    package func run(
        path: String,
        firstLine: Int = 2,
        onChunk: (Report, _ byteCount: Int?, [ImportNotice]) throws -> Void
    ) async throws -> Report {
        var report = Report()
        do {
            let file = try DeviceFile(path: path, timezones: try await timezones(), firstLine: firstLine)
            var chunk = try await file.nextChunk()
            while let current = chunk {
                guard let header = await file.header else { preconditionFailure("a chunk without a header") }
                // The next chunk is read while the database works on this one.
                let next = Task { try await file.nextChunk() }
                let changes = try await Interruption.cancelling { try await store(current, header) }
                report.add(current, changes)
                try onChunk(report, file.byteCount, current.notices)
                chunk = try await next.value
            }
            // A pipe's end may come from the same Ctrl-C, which ended its writer: that is no whole import.
            try Interruption.check("the file may be cut off")
            return report
        } catch {
            throw Failure(report: report, underlying: error)
        }
    }

    private func timezones() async throws -> Set<String> {
        let rows = try await connection.query(SQLText.adminListTimezones)
        return Set(try rows.indices.map { row throws(PostgresError) in try rows.text(row, 0) })
    }

    /// Stores a chunk, and again when somebody else registered the same devices at the same moment.
    private func store(_ chunk: DeviceChunk, _ header: DeviceHeader) async throws -> Changes {
        if chunk.rows.isEmpty { return Changes() }
        var attempt = 1
        while true {
            do {
                return try await storeOnce(chunk, header)
            } catch let error as PostgresError
                where attempt < Self.attempts && !error.closesConnection
                && (error.isRetryable || error.sqlState == .uniqueViolation)
            {
                attempt += 1
            } catch is DevicesMoved where attempt < Self.attempts {
                attempt += 1
            }
        }
    }

    private func storeOnce(_ chunk: DeviceChunk, _ header: DeviceHeader) async throws -> Changes {
        let app = app
        return try await connection.transaction(TransactionOptions(commitsAsynchronously: true)) { connection in
            _ = try await connection.pipeline([
                (SQLText.adminImportPlan, .none), (SQLText.adminImportStage, .none),
            ])
            let copied = try await connection.copyIn(SQLText.adminImportCopy, rows: chunk.rows)
            try await Self.matchDevices(connection, app, chunk, header)
            let columns: [String] = header.presentColumns
            let tags: [String] = header.tagPlaces.map(\.name)
            let results = try await connection.pipeline([
                (SQLText.adminImportUpdateDevices, [.app(app), .texts(columns), .texts(tags)]),
                (SQLText.adminImportInsertDevices, [.app(app)]),
            ])
            let changes = Changes(added: results[1].affectedCount, updated: results[0].affectedCount)
            guard changes.added + changes.updated == copied else { throw DevicesMoved() }
            return changes
        }
    }

    /// Finds the device of each row, and takes away from others what a row brings to its own.
    private static func matchDevices(
        _ connection: isolated PostgresConnection,
        _ app: AppID,
        _ chunk: DeviceChunk,
        _ header: DeviceHeader
    ) async throws {
        let found = try await connection.query(SQLText.adminImportMatchToken, [.app(app)])
        var hasFound = found.affectedCount > 0
        var movedCount: Int64 = 0
        if header.places[.installationID] != nil {
            let results = try await connection.pipeline([
                (SQLText.adminImportMatchInstallation, [.app(app)]),
                (SQLText.adminImportAdoptInstallation, .none),
                (SQLText.adminImportCountMoved, .none),
            ])
            hasFound = hasFound || results[0].affectedCount > 0
            movedCount = try results[2].int64(0, 0)
        }
        if hasFound { _ = try await connection.query(SQLText.adminImportLockDevices, [.app(app)]) }
        if movedCount > 0 { _ = try await connection.query(SQLText.adminImportFreeInstallation, [.app(app)]) }
        if chunk.hasVoIPTokens { _ = try await connection.query(SQLText.adminImportFreeVoipTokens, [.app(app)]) }
    }
}

/// How many devices a chunk added and refreshed.
private struct Changes: Sendable {
    var added = 0
    var updated = 0
}

/// A device that a row led to was removed before it could be refreshed: the chunk is stored again.
private struct DevicesMoved: Error {}

extension DeviceImport.Report {
    fileprivate mutating func add(_ chunk: DeviceChunk, _ changes: Changes) {
        read += chunk.readCount
        added += changes.added
        updated += changes.updated
        merged += chunk.mergedCount
        refused += chunk.refusedCount
        lastLine = chunk.lastLine
        bytesRead = chunk.bytesRead
    }
}
